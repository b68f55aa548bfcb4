// Draws the step in view from memory: the pool first, then the rest, dropped as soon as another step is wanted.

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

// Until the browser has painted, or a moment in a tab that is not seen and never paints.
const painted = () =>
  new Promise((resolve) => {
    setTimeout(resolve, 60);
    requestAnimationFrame(() => setTimeout(resolve, 0));
  });

// The step wanted if it is in memory; while the server is still on its way there, how far it has come.
function inView(stage) {
  const { store, target, shown } = stage;
  if (isThere(stage, target)) return target;
  if (store.newest !== null && store.newest > shown && store.newest < target && isThere(stage, store.newest)) return store.newest;
  return isThere(stage, shown) ? shown : null;
}

// Names a picture: the step and the content of every part of it.
const pictureOf = (stage, step) => JSON.stringify([step, partsWanted(stage).map((name) => stage.store.frames.get(step)[name])]);

const hasNews = (stage) => inView(stage) !== null && pictureOf(stage, inView(stage)) !== stage.drawing;

async function show(stage) {
  const { root, store } = stage;
  if (!(await loaded(stage))) return;
  const step = inView(stage);
  if (step === null) return;
  const began = performance.now();
  const parts = store.frames.get(step);
  const part = (name) => store.parts.get(parts[name]);
  const picture = pictureOf(stage, step);
  const isNext = step === stage.shown + 1 && !stage.scrubbing;
  const moved = new Set(isNext ? part("head").moved : []);
  stage.drawing = picture;
  stage.shown = step;
  stage.reached = Math.max(stage.reached, step);
  root.dataset.step = step;
  showControls(stage);
  showNotice(stage, part("head").caption);
  if (stage.drawn === picture) return;
  for (const data of part("strip").tiles) showTile(stage, data);
  pulse(stage.panels.queue, moved);
  const order = openPanels(stage).sort((a, b) => (b === "pool") - (a === "pool"));
  for (const name of order) {
    await drawPanel(stage, stage.panels[name], parts[name]);
    if (name === "pool") {
      root.dataset.pool = step;
      await painted();
      if (stage.drawing !== picture || stage.scrubbing) return;
      showWords(stage, part);
    } else await breathe();
    if (stage.drawing !== picture) return;
  }
  for (const name of ["pool", "tables", "tree"]) pulse(stage.panels[name], moved);
  stage.drawn = picture;
  root.dataset.drawn = step;
  root.dataset.ms = (performance.now() - began).toFixed(1);
  drawnAt(stage, step, began);
  offerTour(stage);
}

function showWords(stage, part) {
  showLaws(stage, part("laws"));
  const { selected, announce, focus } = part("head");
  for (const { card, name } of Object.values(stage.panels)) {
    if (name === card.open) card.node.classList.toggle("kv-focus", name === focus);
    if (card.tabs[name]) card.tabs[name].dataset.focus = String(name === focus);
  }
  stage.chip.hidden = !selected;
  if (selected) {
    say(stage.chip, `${selected}  ×`);
    stage.chip.setAttribute("aria-label", `${stage.data.words.clear}: ${selected}`);
  }
  say(stage.live, announce);
}

async function loaded(stage) {
  try {
    await loadParts();
  } catch {
    stage.root.style.visibility = "";
    stage.notice.hidden = false;
    say(stage.notice, stage.data.words.no_plotly);
    return false;
  }
  if (stage.root.style.visibility) {
    stage.root.style.visibility = "";
    fitToWindow(stage.root);
  }
  return true;
}

// New data from the page: another language or theme keeps the visitor's place, another run starts at its cursor.
function receive(stage, data) {
  const { root } = stage;
  const isNewRun = stage.data?.run !== data.run;
  stage.data = data;
  if (isNewRun) {
    stage.asking?.abort();
    Object.assign(stage, { target: data.cursor, told: data.cursor, shown: -2, reached: data.reached, select: data.select });
    pause(stage);
  }
  if (stage.store?.view !== viewOf(stage)) stage.store = emptyStore(viewOf(stage));
  absorb(stage, data);
  root.lang = data.lang === "zh" ? "zh-Hans" : "en";
  root.dataset.theme = data.theme;
  root.dataset.look = data.look;
  root.style.setProperty("--kv-px", `${data.scale}px`);
  for (const [name, color] of Object.entries(data.colors)) root.style.setProperty(`--kv-${name}`, color);
  fitToWindow(root);
}

// What the DOM was built from: another language or other cards need another.
const builtFrom = ({ cards, lang }) => JSON.stringify([lang, cards]);

function begin(root, { cards, lang }, before) {
  const stage = Object.assign(build(root, cards), { built: builtFrom({ cards, lang }), ahead: AHEAD, asked: [], shown: -2, speed: 1, root });
  stage.tourWanted = isTourWanted();
  if (before) {
    const { data, target, told, reached, select, speed, tourWanted } = before;
    Object.assign(stage, { data, target, told, reached, select, speed, tourWanted });
  }
  root.style.visibility = "hidden";
  stage.leave = () => {
    stage.gone = true;
    stage.asking?.abort();
    stage.disconnect();
    for (const { plot } of Object.values(stage.panels)) if (plot && window.Plotly) window.Plotly.purge(plot);
    delete root.kvStage;
  };
  connect(stage);
  return stage;
}

export default function stageComponent(component) {
  const root = component.parentElement.querySelector(".kv-stage");
  const before = root.kvStage;
  if (before?.built !== builtFrom(component.data)) {
    before?.leave();
    root.kvStage = begin(root, component.data, before);
  }
  const stage = root.kvStage;
  stage.component = component;
  receive(stage, component.data);
  refresh(stage);
  return stage.leave;
}
