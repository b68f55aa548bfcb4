// How each kind of panel is built and drawn, and the words around the panels.

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false };

function buildPlot(parent) {
  const plot = make("div", "kv-plot", parent);
  plot.setAttribute("role", "img");
  return plot;
}

function buildKernel(body) {
  const grid = make("div", "kv-kernel-body", body);
  const plot = buildPlot(grid);
  const top = make("div", "kv-top", grid);
  const empty = make("p", "kv-empty", body);
  const text = make("p", "kv-text", body);
  const prompt = make("span", "kv-prompt", text);
  const generated = make("mark", "", text);
  const note = make("em", "", text);
  const footer = make("p", "kv-footer", body);
  return { plot, grid, top, empty, text, prompt, generated, note, footer };
}

const BUILD = {
  figure: (body) => ({ plot: buildPlot(body) }),
  table: (body) => ({ table: make("div", "kv-table", body) }),
  sentences: (body) => ({ list: make("ul", "kv-sentences", body) }),
  kernel: buildKernel,
};

const DRAW = { figure: drawFigure, table: drawTable, sentences: drawSentences, kernel: drawKernel };

// Nothing happens if the panel shows this very part already.
async function drawPanel(stage, panel, hash) {
  const part = stage.store.parts.get(hash);
  if (!part || panel.hash === hash || panel.body.offsetWidth === 0) return;
  panel.hash = hash;
  const { sub, legend } = panel.card;
  say(sub, part.sub ?? "");
  const key = JSON.stringify(part.legend ?? []);
  if (panel.card.legendKey !== key) {
    panel.card.legendKey = key;
    legend.replaceChildren(...(part.legend ?? []).map(chip));
  }
  await DRAW[panel.kind](stage, panel, part);
}

async function drawFigure(stage, panel, part) {
  const { plot } = panel;
  plot.setAttribute("aria-label", part.alt);
  await window.Plotly.react(plot, part.figure.data, part.figure.layout, CONFIG);
  if (!panel.wired) {
    panel.wired = true;
    plot.on("plotly_click", (event) => select(stage, [event.points?.[0]?.customdata].flat()[0]));
  }
}

function drawTable(stage, panel, part) {
  const table = document.createElement("table");
  const head = make("tr", "", make("thead", "", table));
  for (const column of part.columns) make("th", "", head).textContent = column;
  for (const row of part.rows) {
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
  panel.table.replaceChildren(table);
  if (part.note) make("p", "kv-empty", panel.table).textContent = part.note;
}

function drawSentences(stage, panel, part) {
  panel.list.replaceChildren(...part.sentences.map(sentenceItem));
  panel.list.scrollTop = 0;
}

function sentenceItem(sentence) {
  const item = make("li", "");
  item.style.setProperty("--tone", sentence.color);
  if (sentence.label) {
    const jump = make("button", "kv-jump", item);
    jump.type = "button";
    jump.textContent = sentence.label;
    jump.dataset.step = sentence.step;
  }
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
}

async function drawKernel(stage, panel, part) {
  say(panel.empty, part.empty);
  panel.empty.hidden = !part.empty;
  panel.grid.hidden = Boolean(part.empty);
  say(panel.prompt, part.prompt);
  say(panel.generated, part.text);
  say(panel.note, part.textNote);
  panel.text.hidden = !(part.prompt || part.text);
  panel.text.scrollTop = panel.text.scrollHeight;
  panel.top.replaceChildren();
  if (part.top.length) make("div", "kv-top-title", panel.top).textContent = part.next;
  for (const item of part.top) {
    const row = make("div", "kv-top-row", panel.top);
    row.style.setProperty("--share", item.share);
    make("span", "", row).textContent = item.text;
    make("b", "", row).textContent = item.percent;
  }
  panel.footer.replaceChildren();
  part.footer.forEach((line, index) => {
    make("span", index === 0 ? (part.within ? "kv-good" : "kv-bad") : "", panel.footer).textContent = line;
  });
  if (part.inside) {
    const inside = make("button", "kv-inside", panel.footer);
    inside.type = "button";
    inside.textContent = part.inside;
    // The menu's own link: it keeps the visit, and with it the run.
    inside.addEventListener("click", () => document.querySelector('a[data-testid="stPageLink-NavLink"][href*="kernel?"]')?.click());
  }
  if (!part.empty) await drawFigure(stage, panel, part);
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

function showTile(stage, data) {
  let tile = stage.tiles[data.id];
  if (!tile) {
    const node = make("div", `kv-tile kv-tile-${data.id}`);
    stage.strip.insertBefore(node, stage.laws);
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

function showNotice(stage, caption) {
  const notice = stage.offline ? stage.data.words.offline : stage.store.notice;
  stage.notice.hidden = !notice && !caption;
  stage.notice.classList.toggle("kv-caption", !notice);
  say(stage.notice, notice || caption);
  stage.notice.title = caption;
}

// The marks of `refs` dim once, so that the eye finds them: first where blocks leave, then where they arrive.
const PULSE = [[{ opacity: 1 }, { opacity: 0.15 }, { opacity: 1 }], { duration: 420, easing: "ease-in-out" }];
const still = matchMedia("(prefers-reduced-motion: reduce)");

function pulse(panel, refs) {
  if (!panel?.plot || !refs.size || still.matches) return;
  for (const point of panel.plot.querySelectorAll(".barlayer .point, .scatterlayer .point")) {
    const { trace } = point.parentNode.parentNode.__data__[0];
    if (refs.has([trace.customdata?.[point.__data__.i]].flat()[0])) point.animate(...PULSE);
  }
}
