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
  stage.pace = make("button", "kv-button kv-pace");
  stage.pace.type = "button";
  stage.pace.setAttribute("aria-keyshortcuts", "1 2 3");
  stage.buttons.play.after(stage.pace);
  stage.scrub = make("input", "kv-scrub", bar);
  stage.scrub.type = "range";
  stage.scrub.min = "-1";
  stage.position = make("span", "kv-position", bar);
  stage.chip = make("button", "kv-chip", bar);
  stage.chip.type = "button";
  stage.chip.hidden = true;
}

function buildStrip(stage) {
  stage.notice = make("div", "kv-notice", stage.root);
  stage.notice.hidden = true;
  stage.strip = make("div", "kv-strip", stage.root);
  stage.tiles = {};
  stage.laws = make("button", "kv-tile kv-laws", stage.strip);
  stage.laws.type = "button";
  stage.laws.setAttribute("aria-expanded", "false");
  stage.lawsList = make("div", "kv-laws-list", stage.root);
  stage.lawsList.hidden = true;
  stage.lawsList.setAttribute("role", "dialog");
}

// A card shows one of its panels; with several of them its title is a row of tabs.
function buildCard(stage, { slot, panels }, parent) {
  const node = make("section", `kv-card kv-${slot}`, parent);
  if (!IN_SIDE.has(slot)) node.style.gridArea = slot;
  const head = make("header", "kv-head", node);
  const card = { node, slot, panels: panels.map((panel) => panel.name), tabs: {} };
  if (panels.length > 1) buildTabs(stage, card, panels, head);
  else make("h2", "", head).textContent = panels[0].title;
  card.sub = make("span", "kv-sub", head);
  card.legend = make("span", "kv-legend", head);
  for (const { name, kind } of panels) {
    const body = make("div", `kv-panel kv-panel-${kind}`, node);
    stage.panels[name] = { name, kind, card, body, ...BUILD[kind](body), hash: "" };
  }
  open(card, card.panels[0], stage);
}

function buildTabs(stage, card, panels, head) {
  const row = make("div", "kv-tabs", head);
  row.setAttribute("role", "tablist");
  panels.forEach(({ name, title }, place) => {
    const tab = make("button", "kv-tab", row);
    tab.type = "button";
    tab.textContent = title;
    tab.setAttribute("role", "tab");
    tab.onclick = () => turnTo(stage, card, name);
    tab.onkeydown = (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.stopPropagation();
      const other = panels[(place + by + panels.length) % panels.length].name;
      turnTo(stage, card, other);
      card.tabs[other].focus();
    };
    card.tabs[name] = tab;
  });
}

function open(card, name, stage) {
  card.open = name;
  for (const [key, tab] of Object.entries(card.tabs)) {
    tab.setAttribute("aria-selected", String(key === name));
    tab.tabIndex = key === name ? 0 : -1;
  }
  for (const key of card.panels) stage.panels[key].body.hidden = key !== name;
}

// A panel that was closed may lack its part: it is asked for like any other.
function turnTo(stage, card, name) {
  open(card, name, stage);
  refresh(stage);
}

const openPanels = (stage) => stage.cards.map((card) => card.open);

function build(root, cards) {
  const stage = { root, panels: {}, cards: [] };
  root.replaceChildren();
  buildBar(stage);
  buildStrip(stage);
  const side = make("div", "kv-side");
  for (const card of cards) buildCard(stage, card, IN_SIDE.has(card.slot) ? side : root);
  stage.cards = [...new Set(Object.values(stage.panels).map((panel) => panel.card))];
  root.appendChild(side);
  stage.live = make("div", "kv-hidden", root);
  stage.live.setAttribute("aria-live", "polite");
  stage.live.setAttribute("role", "status");
  return stage;
}

const IN_SIDE = new Set(["why", "kernel", "queue"]);
