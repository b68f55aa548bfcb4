// One frame in, one drawing out: the pool first, then the rest, dropped as soon as a newer frame is there.

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false };
const ORDER = ["pool", "tables", "attention", "queue", "schedule"];

const HERE = new URL(import.meta.url);

function fetched(tag, attributes) {
  return new Promise((resolve, reject) => {
    const node = Object.assign(document.createElement(tag), attributes);
    node.onload = () => resolve();
    node.onerror = () => {
      node.remove();
      reject(new Error("not loaded"));
    };
    document.head.appendChild(node);
  });
}

// Sizes are known only once the style is there, so both are waited for before the first drawing.
let ready = null;
function loadParts() {
  ready ??= Promise.all([
    window.Plotly ?? fetched("script", { src: new URL("plotly.min.js", HERE).href }),
    fetched("link", { rel: "stylesheet", href: new URL(`stage.css${HERE.search}`, HERE).href }),
  ]).catch((error) => {
    ready = null;
    throw error;
  });
  return ready;
}

const breathe = () => new Promise((resolve) => setTimeout(resolve, 0));

function showControls(stage, frame) {
  const { buttons, scrub } = stage;
  const words = frame.controls;
  const running = isRunning(stage);
  stage.bar.setAttribute("aria-label", words.toolbar);
  for (const name of ["reset", "back", "step", "play", "end"]) say(buttons[name].label, words[name]);
  if (stage.shownRunning !== running) {
    stage.shownRunning = running;
    buttons.play.replaceChild(icon(running ? "stop" : "play"), buttons.play.firstChild);
    buttons.play.classList.toggle("kv-active", running);
  }
  if (running) say(buttons.play.label, words.stop);
  const atStart = frame.step < 0;
  const atEnd = frame.done && frame.step >= frame.last;
  buttons.reset.disabled = atStart;
  buttons.back.disabled = atStart;
  buttons.step.disabled = atEnd;
  buttons.play.disabled = atEnd && !running;
  buttons.end.disabled = atEnd || running;
  scrub.max = String(Math.max(frame.last, 0));
  scrub.disabled = frame.last < 0;
  scrub.setAttribute("aria-label", words.scrub);
  scrub.setAttribute("aria-valuetext", words.position);
  if (!stage.scrubbing) scrub.value = String(frame.step);
  const span = Math.max(frame.last, 0) + 1;
  scrub.style.setProperty("--kv-done", `${((Number(scrub.value) + 1) / span) * 100}%`);
  say(stage.position, words.position);
  stage.chip.hidden = !frame.selection;
  if (frame.selection) {
    say(stage.chip, `${frame.selection.label}  ×`);
    stage.chip.setAttribute("aria-label", `${words.clear}: ${frame.selection.label}`);
  }
  stage.notice.hidden = !frame.notice && !frame.caption;
  stage.notice.classList.toggle("kv-caption", !frame.notice);
  say(stage.notice, frame.notice || frame.caption);
  stage.notice.title = frame.caption;
}

function showTile(stage, data) {
  let tile = stage.tiles[data.id];
  if (!tile) {
    const node = make("div", `kv-tile kv-tile-${data.id}`, stage.strip);
    const line = make("div", "kv-line", node);
    tile = { node, value: make("b", "", line), of: make("i", "", line), label: make("span", "", line) };
    tile.detail = make("div", "kv-detail", node);
    tile.meter = make("div", "kv-meter", node);
    stage.tiles[data.id] = tile;
  }
  say(tile.value, data.value);
  say(tile.of, data.of ? `/ ${data.of}` : "");
  say(tile.label, data.label);
  say(tile.detail, data.detail);
  tile.node.classList.toggle("kv-binds", Boolean(data.binds));
  tile.node.title = data.alt ?? "";
  if (data.alt) {
    tile.meter.setAttribute("role", "img");
    tile.meter.setAttribute("aria-label", data.alt);
  }
  tile.meter.hidden = !data.parts;
  tile.node.classList.toggle("kv-metered", Boolean(data.parts));
  (data.parts ?? []).forEach((part, index) => {
    const piece = tile.meter.children[index] ?? make("span", "", tile.meter);
    piece.style.width = `${part.share * 100}%`;
    piece.style.background = part.color;
  });
}

function showLaws(stage, laws) {
  stage.laws.dataset.state = laws.state;
  stage.laws.replaceChildren();
  make("span", "kv-law-sign", stage.laws).textContent = { holds: "✓", broken: "!", unchecked: "–" }[laws.state];
  make("span", "kv-law-text", stage.laws).textContent = laws.badge;
  stage.lawsList.setAttribute("aria-label", laws.title);
  stage.lawsList.replaceChildren();
  make("h3", "", stage.lawsList).textContent = laws.title;
  const list = make("ol", "", stage.lawsList);
  for (const item of laws.items) {
    const row = make("li", "", list);
    row.dataset.state = item.state;
    make("span", "", row).textContent = item.text;
    make("b", "", row).textContent = item.note;
  }
}

function chip(entry) {
  const node = make("span", "kv-key");
  const swatch = make("i", entry.ring ? "kv-ring" : entry.thin ? "kv-thin" : "", node);
  if (entry.ring) {
    swatch.style.borderColor = entry.color;
    swatch.textContent = entry.glyph;
  } else {
    swatch.style.background = entry.hatch
      ? `repeating-linear-gradient(135deg, ${entry.color} 0 3px, ${entry.hatch} 3px 4.5px)`
      : entry.color;
    if (entry.outline) swatch.style.boxShadow = `inset 0 0 0 1px ${entry.outline}`;
  }
  node.append(entry.label);
  return node;
}

function showHeads(stage, frame) {
  for (const [name, panel] of Object.entries(stage.panels)) {
    const data = frame.panels[name];
    if (name === "tables") {
      say(stage.tabs.tables, data.title);
      say(stage.tabs.requests, frame.requests.title);
    } else say(panel.title, data.title);
    say(panel.sub, data.sub);
    const key = JSON.stringify(data.legend);
    if (panel.legendKey !== key) {
      panel.legendKey = key;
      panel.legend.replaceChildren(...data.legend.map(chip));
    }
  }
  for (const [name, plot] of Object.entries(stage.plots)) plot.node.setAttribute("aria-label", frame.panels[name].alt);
}

function showTable(stage, requests) {
  const key = JSON.stringify(requests);
  if (stage.tableKey === key) return;
  stage.tableKey = key;
  const table = document.createElement("table");
  const head = make("tr", "", make("thead", "", table));
  for (const column of requests.columns) make("th", "", head).textContent = column;
  for (const row of requests.rows) {
    const body = make("tbody", "", table);
    body.dataset.ref = `request:${row.id}`;
    body.dataset.tone = row.tone;
    body.dataset.selected = String(row.selected);
    body.tabIndex = 0;
    const line = make("tr", "", body);
    for (const cell of row.cells) make("td", "", line).textContent = cell;
    const status = make("td", "kv-status", make("tr", "", body));
    status.colSpan = row.cells.length;
    status.textContent = row.status;
  }
  stage.table.replaceChildren(table);
  if (requests.note) make("p", "kv-empty", stage.table).textContent = requests.note;
}

function showWords(stage, frame) {
  say(stage.whyTitle, frame.why.title);
  stage.why.replaceChildren(
    ...frame.why.sentences.map((sentence) => {
      const item = make("li", "");
      item.style.setProperty("--tone", sentence.color);
      item.append(sentence.text);
      if (sentence.source) {
        item.append(" ");
        const code = make("code", "", item);
        const cut = sentence.source.lastIndexOf(".") + 1;
        make("span", "kv-class", code).textContent = sentence.source.slice(0, cut);
        code.append(sentence.source.slice(cut));
      }
      if (sentence.title) item.title = sentence.title;
      if (sentence.ref) {
        item.dataset.ref = sentence.ref;
        item.tabIndex = 0;
      }
      return item;
    }),
  );
  stage.why.scrollTop = 0;
  const { kernel } = stage;
  const data = frame.kernel;
  say(kernel.title, data.title);
  say(kernel.sub, data.sub);
  say(kernel.empty, data.empty);
  kernel.empty.hidden = !data.empty;
  kernel.body.hidden = Boolean(data.empty);
  say(kernel.prompt, data.prompt);
  say(kernel.generated, data.text);
  say(kernel.note, data.textNote);
  kernel.text.hidden = !(data.prompt || data.text);
  kernel.text.scrollTop = kernel.text.scrollHeight;
  kernel.top.replaceChildren();
  if (data.top.length) make("div", "kv-top-title", kernel.top).textContent = data.next;
  for (const item of data.top) {
    const row = make("div", "kv-top-row", kernel.top);
    row.style.setProperty("--share", item.share);
    make("span", "", row).textContent = item.text;
    make("b", "", row).textContent = item.percent;
  }
  kernel.footer.replaceChildren();
  data.footer.forEach((line, index) => {
    const part = make("span", index === 0 ? (data.within ? "kv-good" : "kv-bad") : "", kernel.footer);
    part.textContent = line;
  });
}

async function drawPlot(stage, name, plotly, frame) {
  const plot = stage.plots[name];
  if (plot.node.hidden || plot.node.offsetWidth === 0) return;
  const { figure } = frame.panels[name];
  const key = JSON.stringify(figure);
  if (plot.drawn === key) return;
  plot.drawn = key;
  await plotly.react(plot.node, figure.data, figure.layout, CONFIG);
  if (!plot.wired) {
    plot.wired = true;
    plot.node.on("plotly_click", (event) => select(stage, [event.points?.[0]?.customdata].flat()[0]));
  }
}

async function draw(stage) {
  const frame = stage.frame;
  const began = performance.now();
  try {
    await loadParts();
  } catch {
    stage.root.style.visibility = "";
    stage.notice.hidden = false;
    say(stage.notice, frame.controls.no_plotly);
    return;
  }
  const plotly = window.Plotly;
  if (stage.root.style.visibility) {
    stage.root.style.visibility = "";
    fitToWindow(stage.root);
    stage.kernel.text.scrollTop = stage.kernel.text.scrollHeight;
  }
  for (const name of ORDER) {
    if (stage.frame !== frame) return;
    await drawPlot(stage, name, plotly, frame);
    if (name === "pool") stage.root.dataset.pool = frame.step;
    await breathe();
  }
  if (stage.frame !== frame) return;
  stage.root.dataset.drawn = frame.step;
  stage.root.dataset.ms = (performance.now() - began).toFixed(1);
  if (isRunning(stage)) tick(stage, frame, began);
}

function tick(stage, frame, began) {
  clearTimeout(stage.clock);
  const rest = Math.max(0, stage.pace - (performance.now() - began));
  stage.clock = setTimeout(() => {
    if (stage.frame === frame && isRunning(stage)) send(stage, "tick", { step: frame.step });
  }, rest);
}

export default function stageComponent(component) {
  const root = component.parentElement.querySelector(".kv-stage");
  let stage = root.kvStage;
  if (!stage) {
    stage = root.kvStage = build(root);
    root.style.visibility = "hidden";
    stage.draw = () => draw(stage);
    connect(stage);
  }
  const frame = component.data;
  stage.component = component;
  stage.frame = frame;
  // A seek that takes several answers stays pending, so that a further press counts on from its target.
  if (frame.step === stage.pending || (frame.ack >= stage.nonce && !frame.running)) {
    stage.pending = null;
    delete root.dataset.pending;
  }
  stage.nonce = Math.max(stage.nonce, frame.ack);
  if (!frame.running) stage.halted = false;
  root.lang = frame.lang === "zh" ? "zh-Hans" : "en";
  root.dataset.theme = frame.theme;
  for (const [name, color] of Object.entries(frame.colors)) root.style.setProperty(`--kv-${name}`, color);
  showControls(stage, frame);
  for (const data of frame.kpis) showTile(stage, data);
  stage.strip.appendChild(stage.laws);
  showLaws(stage, frame.laws);
  showHeads(stage, frame);
  showTable(stage, frame.requests);
  showWords(stage, frame);
  say(stage.live, frame.announce);
  root.dataset.step = frame.step;
  root.dataset.running = String(frame.running);
  root.dataset.done = String(frame.done && frame.step === frame.last);
  fitToWindow(root);
  draw(stage);
  return () => {
    stage.disconnect();
    if (window.Plotly) for (const plot of Object.values(stage.plots)) window.Plotly.purge(plot.node);
    delete root.kvStage;
  };
}
