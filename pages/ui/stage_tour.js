// A first visit's tour: a few stops, each beside what it is about. Shown once, and again when a link asks for it.

const TOUR_SEEN = "kvscope-tour";
const TOUR_STOPS = [[".kv-bar"], [".kv-tables", ".kv-pool"], [".kv-why"], [".st-key-drawer"]];
const TOUR_GAP = 10;

// Where nothing can be remembered, a tour would come each time: there it comes only when asked for.
function isTourWanted() {
  const asked = new URLSearchParams(location.search).get("tour");
  try {
    return asked === "1" || (asked !== "0" && localStorage.getItem(TOUR_SEEN) === null);
  } catch {
    return asked === "1";
  }
}

function offerTour(stage) {
  if (!stage.tourWanted) return;
  stage.tourWanted = false;
  openTour(stage);
}

function openTour(stage) {
  const { tour } = stage.data;
  const cover = make("div", "kv-tour", stage.root);
  const ring = make("div", "kv-tour-ring", cover);
  const card = make("div", "kv-tour-card", cover);
  card.setAttribute("role", "dialog");
  card.setAttribute("aria-modal", "true");
  card.setAttribute("aria-labelledby", "kv-tour-title");
  card.setAttribute("aria-describedby", "kv-tour-text");
  const title = make("h2", "", card);
  title.id = "kv-tour-title";
  const text = make("p", "", card);
  text.id = "kv-tour-text";
  const foot = make("div", "kv-tour-foot", card);
  const place = make("span", "", foot);
  const buttons = {};
  for (const name of ["skip", "back", "next"]) {
    buttons[name] = make("button", `kv-button kv-tour-${name}`, foot);
    buttons[name].type = "button";
    buttons[name].textContent = tour[name];
  }
  stage.tour = { cover, ring, card, title, text, place, buttons, stop: 0, before: document.activeElement };
  buttons.skip.onclick = () => closeTour(stage);
  buttons.back.onclick = () => turnTour(stage, -1);
  buttons.next.onclick = () => turnTour(stage, 1);
  card.onkeydown = (event) => onTourKey(stage, event);
  showStop(stage);
  buttons.next.focus();
}

function turnTour(stage, by) {
  const stop = stage.tour.stop + by;
  if (stop < 0) return;
  if (stop >= TOUR_STOPS.length) {
    closeTour(stage);
    return;
  }
  stage.tour.stop = stop;
  showStop(stage);
  stage.tour.buttons.next.focus();
}

function showStop(stage) {
  const { stop, title, text, place, buttons } = stage.tour;
  const { stops, of, next, done } = stage.data.tour;
  const isLast = stop === TOUR_STOPS.length - 1;
  say(title, stops[stop].title);
  say(text, stops[stop].text);
  say(place, of.replace("{n}", stop + 1).replace("{m}", TOUR_STOPS.length));
  say(buttons.next, isLast ? done : next);
  buttons.back.hidden = stop === 0;
  buttons.skip.hidden = isLast;
  placeTour(stage);
}

// The ring goes around what the stop is about, the words below it, or above where there is more room.
function placeTour(stage) {
  if (!stage.tour) return;
  const { stop, ring, card } = stage.tour;
  const boxes = TOUR_STOPS[stop].map((name) => document.querySelector(name)?.getBoundingClientRect()).filter((box) => box?.width);
  ring.hidden = !boxes.length;
  if (!boxes.length) boxes.push(new DOMRect(innerWidth / 2, innerHeight / 3, 0, 0));
  const left = Math.min(...boxes.map((box) => box.left)) - 4;
  const top = Math.min(...boxes.map((box) => box.top)) - 4;
  const right = Math.max(...boxes.map((box) => box.right)) + 4;
  const bottom = Math.max(...boxes.map((box) => box.bottom)) + 4;
  Object.assign(ring.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
  const { width, height } = card.getBoundingClientRect();
  const isBelow = innerHeight - bottom > height + 2 * TOUR_GAP || innerHeight - bottom > top;
  const y = isBelow ? bottom + TOUR_GAP : top - TOUR_GAP - height;
  const x = (left + right - width) / 2;
  card.style.left = `${Math.max(TOUR_GAP, Math.min(x, innerWidth - width - TOUR_GAP))}px`;
  card.style.top = `${Math.max(TOUR_GAP, Math.min(y, innerHeight - height - TOUR_GAP))}px`;
}

function onTourKey(stage, event) {
  const shown = Object.values(stage.tour.buttons).filter((button) => !button.hidden);
  const at = shown.indexOf(document.activeElement);
  const act = {
    Escape: () => closeTour(stage),
    ArrowRight: () => turnTour(stage, 1),
    ArrowLeft: () => turnTour(stage, -1),
    Tab: () => shown[(at + (event.shiftKey ? -1 : 1) + shown.length) % shown.length].focus(),
  }[event.key];
  if (!act) return;
  event.preventDefault();
  event.stopPropagation();
  act();
}

function closeTour(stage) {
  const { cover, before } = stage.tour;
  stage.tour = null;
  cover.remove();
  if (before?.isConnected) before.focus();
  try {
    localStorage.setItem(TOUR_SEEN, "1");
  } catch {
    // Nothing can be remembered here; the tour was not offered for that reason, but asked for.
  }
}
