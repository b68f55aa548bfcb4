// DOM built once per mount. Data enters only as textContent: names and texts may come from an upload.

const make = (tag, className, parent) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (parent) parent.appendChild(node);
  return node;
};

const say = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

const ICONS = {
  reset: "M4 4v5h5M4.6 9A8 8 0 1 1 4 13",
  back: "M14 5l-7 7 7 7",
  step: "M7 5l7 7-7 7M18 5v14",
  play: "M7 4l13 8-13 8z",
  end: "M4 5l7 7-7 7M12 5l7 7-7 7",
  stop: "M6 6h12v12H6z",
};

const icon = (name) => {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", ICONS[name]);
  svg.appendChild(path);
  return svg;
};

const HINTS = { reset: "Home", back: "←", step: "→", play: "Space", end: "End", stop: "Space" };

function buildBar(stage) {
  const bar = make("div", "kv-bar", stage.root);
  bar.setAttribute("role", "toolbar");
  stage.bar = bar;
  stage.buttons = {};
  for (const name of ["reset", "back", "step", "play", "end"]) {
    const button = make("button", `kv-button kv-${name}`, bar);
    button.type = "button";
    button.appendChild(icon(name));
    button.label = make("span", "kv-label", button);
    make("kbd", "", button).textContent = HINTS[name];
    button.setAttribute("aria-keyshortcuts", { back: "ArrowLeft", step: "ArrowRight" }[name] ?? HINTS[name]);
    stage.buttons[name] = button;
  }
  stage.scrub = make("input", "kv-scrub", bar);
  stage.scrub.type = "range";
  stage.scrub.min = "-1";
  stage.position = make("span", "kv-position", bar);
  stage.chip = make("button", "kv-chip", bar);
  stage.chip.type = "button";
  stage.chip.hidden = true;
}

function buildPanel(stage, name, area) {
  const card = make("section", `kv-card kv-${name}`, stage.root);
  card.style.gridArea = area;
  const head = make("header", "kv-head", card);
  const panel = { card, head };
  panel.title = make("h2", "", head);
  panel.sub = make("span", "kv-sub", head);
  panel.legend = make("span", "kv-legend", head);
  return panel;
}

function buildPlot(stage, name, parent) {
  const plot = make("div", "kv-plot", parent);
  plot.setAttribute("role", "img");
  stage.plots[name] = { node: plot, drawn: "" };
}

function build(root) {
  const stage = { root, plots: {}, panels: {}, pending: null, nonce: 0, acked: 0, pace: 0, frame: null };
  root.replaceChildren();
  buildBar(stage);
  stage.notice = make("div", "kv-notice", root);
  stage.notice.hidden = true;
  stage.strip = make("div", "kv-strip", root);
  stage.tiles = {};
  stage.laws = make("button", "kv-tile kv-laws", root);
  stage.laws.type = "button";
  stage.laws.setAttribute("aria-expanded", "false");
  stage.lawsList = make("div", "kv-laws-list", root);
  stage.lawsList.hidden = true;
  stage.lawsList.setAttribute("role", "dialog");

  for (const name of ["tables", "pool", "schedule"]) {
    stage.panels[name] = buildPanel(stage, name, name);
    buildPlot(stage, name, stage.panels[name].card);
  }
  buildTabs(stage, stage.panels.tables);

  const side = make("div", "kv-side", root);
  const why = make("section", "kv-card kv-why", side);
  stage.whyTitle = make("h2", "", make("header", "kv-head", why));
  stage.why = make("ul", "kv-sentences", why);
  buildKernel(stage, side);
  stage.panels.queue = buildPanel(stage, "queue", "auto");
  side.appendChild(stage.panels.queue.card);
  buildPlot(stage, "queue", stage.panels.queue.card);

  stage.live = make("div", "kv-hidden", root);
  stage.live.setAttribute("aria-live", "polite");
  stage.live.setAttribute("role", "status");
  return stage;
}

function buildTabs(stage, panel) {
  const tabs = make("div", "kv-tabs", panel.head);
  tabs.setAttribute("role", "tablist");
  panel.head.insertBefore(tabs, panel.sub);
  panel.title.remove();
  stage.table = make("div", "kv-table", panel.card);
  stage.table.hidden = true;
  stage.tabs = {};
  for (const name of ["tables", "requests"]) {
    const tab = make("button", "kv-tab", tabs);
    tab.type = "button";
    tab.setAttribute("role", "tab");
    tab.onclick = () => showTab(stage, name);
    tab.onkeydown = (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.stopPropagation();
      const other = name === "tables" ? "requests" : "tables";
      showTab(stage, other);
      stage.tabs[other].focus();
    };
    stage.tabs[name] = tab;
  }
  showTab(stage, "tables");
}

function showTab(stage, name) {
  stage.tab = name;
  for (const [key, tab] of Object.entries(stage.tabs)) {
    tab.setAttribute("aria-selected", String(key === name));
    tab.tabIndex = key === name ? 0 : -1;
  }
  stage.table.hidden = name !== "requests";
  stage.plots.tables.node.hidden = name !== "tables";
  stage.panels.tables.legend.hidden = name !== "tables";
  if (name === "tables" && stage.frame) stage.draw?.();
}

function buildKernel(stage, side) {
  const card = make("section", "kv-card kv-kernel", side);
  const head = make("header", "kv-head", card);
  const kernel = { title: make("h2", "", head), sub: make("span", "kv-sub", head) };
  kernel.body = make("div", "kv-kernel-body", card);
  buildPlot(stage, "attention", kernel.body);
  kernel.top = make("div", "kv-top", kernel.body);
  kernel.empty = make("p", "kv-empty", card);
  const text = make("p", "kv-text", card);
  kernel.text = text;
  kernel.prompt = make("span", "kv-prompt", text);
  kernel.generated = make("mark", "", text);
  kernel.note = make("em", "", text);
  kernel.footer = make("p", "kv-footer", card);
  stage.kernel = kernel;
}
