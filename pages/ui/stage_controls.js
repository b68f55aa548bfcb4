// What the visitor does: buttons, keys, scrubber, clicks. Targets are absolute, so that fast presses add up.

const TYPING = "input:not([type=range]), textarea, select, [contenteditable=true], [role=combobox], [role=listbox], [role=dialog] *";
// From the beginning of one step to that of the next, unless drawing takes longer.
const SPEEDS = [
  { name: "slow", sign: "½×", pace: 1400 },
  { name: "normal", sign: "1×", pace: 700 },
  { name: "fast", sign: "4×", pace: 175 },
];

// Draws what is there at once, and fetches what is not.
function refresh(stage) {
  show(stage);
  fetchMissing(stage);
  restLater(stage);
}

function goTo(stage, wanted) {
  const target = Math.max(-1, Math.min(wanted, stage.store.end ?? MAX_STEP));
  if (target === stage.target) return;
  stage.target = target;
  refresh(stage);
}

function seek(stage, wanted) {
  pause(stage);
  goTo(stage, wanted);
}

// From a run to the end, a press counts on from what is shown.
const stepBy = (stage, delta) => seek(stage, (stage.target >= MAX_STEP ? stage.shown : stage.target) + delta);

const atEnd = (stage) => stage.store.end !== null && stage.shown >= stage.store.end;

function play(stage) {
  if (atEnd(stage)) return;
  stage.playing = true;
  showControls(stage);
  goTo(stage, stage.shown + 1);
}

function runToEnd(stage) {
  if (!atEnd(stage)) goTo(stage, MAX_STEP);
  showControls(stage);
}

function pause(stage) {
  clearTimeout(stage.clock);
  stage.playing = false;
}

// During play the new pace counts from the step in view.
function setSpeed(stage, speed) {
  stage.speed = speed;
  showControls(stage);
  if (stage.playing && stage.root.dataset.drawn === String(stage.target)) drawnAt(stage, stage.target, performance.now());
}

function halt(stage) {
  pause(stage);
  stage.target = stage.shown;
  refresh(stage);
}

const isRunning = (stage) => stage.playing || stage.target >= MAX_STEP;

// The clock of play: the next step comes a pace after the last began, but never before that one is drawn.
function drawnAt(stage, step, began) {
  if (!stage.playing || step !== stage.target) return;
  clearTimeout(stage.clock);
  if (atEnd(stage)) {
    pause(stage);
    showControls(stage);
    return;
  }
  const rest = Math.max(0, SPEEDS[stage.speed].pace - (performance.now() - began));
  stage.clock = setTimeout(() => goTo(stage, stage.shown + 1), rest);
}

function select(stage, ref) {
  if (!ref) return;
  const cut = ref.indexOf(":");
  const kind = ref.slice(0, cut);
  const id = kind !== "request" ? Number(ref.slice(cut + 1)) : ref.slice(cut + 1);
  const now = stage.select;
  // A second click on the same thing lets go of it.
  setSelection(stage, now && now.kind === kind && now.id === id ? null : { kind, id });
}

function setSelection(stage, selection) {
  stage.select = selection;
  stage.store.frames.clear();
  stage.store.view = viewOf(stage);
  stage.asking?.abort();
  refresh(stage);
}

function toggleLaws(stage, open) {
  stage.lawsList.hidden = !open;
  stage.laws.setAttribute("aria-expanded", String(open));
}

function onKey(stage, event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target instanceof Element ? event.target : document.body;
  if (target.closest(TYPING)) return;
  const act = {
    ArrowRight: () => stepBy(stage, 1),
    ArrowLeft: () => stepBy(stage, -1),
    Home: () => seek(stage, -1),
    End: () => (isRunning(stage) ? halt(stage) : runToEnd(stage)),
    " ": () => (isRunning(stage) ? halt(stage) : play(stage)),
    1: () => setSpeed(stage, 0),
    2: () => setSpeed(stage, 1),
    3: () => setSpeed(stage, 2),
    Escape: () => {
      if (!stage.lawsList.hidden) toggleLaws(stage, false);
      else if (stage.select) setSelection(stage, null);
    },
  }[event.key];
  // Space on a focused button presses that button.
  if (!act || (event.key === " " && target.closest("button, summary, a, [role=tab], [tabindex='0']"))) return;
  event.preventDefault();
  act();
}

const dark = matchMedia("(prefers-color-scheme: dark)");

function connect(stage) {
  const { buttons, scrub, root } = stage;
  buttons.reset.onclick = () => seek(stage, -1);
  buttons.back.onclick = () => stepBy(stage, -1);
  buttons.step.onclick = () => stepBy(stage, 1);
  buttons.play.onclick = () => (isRunning(stage) ? halt(stage) : play(stage));
  buttons.end.onclick = () => runToEnd(stage);
  stage.pace.onclick = () => setSpeed(stage, (stage.speed + 1) % SPEEDS.length);
  // While dragging, the cheap panels follow the thumb; the rest is drawn when it rests.
  scrub.oninput = () => {
    stage.scrubbing = true;
    seek(stage, Number(scrub.value));
    restLater(stage);
  };
  stage.chip.onclick = () => setSelection(stage, null);
  stage.laws.onclick = () => toggleLaws(stage, stage.lawsList.hidden);
  const pick = (event) => {
    const jump = event.target.closest("[data-step].kv-jump");
    if (jump) seek(stage, Number(jump.dataset.step));
    else select(stage, event.target.closest("[data-ref]")?.dataset.ref);
  };
  root.addEventListener("click", pick);
  root.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.target.dataset.ref) {
      event.preventDefault();
      pick(event);
    }
  });
  const keys = (event) => onKey(stage, event);
  const away = (event) => {
    if (!stage.lawsList.hidden && !event.target.closest(".kv-laws, .kv-laws-list")) toggleLaws(stage, false);
  };
  document.addEventListener("keydown", keys);
  document.addEventListener("pointerdown", away);
  const fit = () => {
    fitToWindow(root);
    placeTour(stage);
  };
  window.addEventListener("resize", fit);
  // Streamlit's own parts follow the browser's colours by themselves, but only the server knows ours.
  const recolor = () => setTimeout(() => startAnew(stage), REST_MS);
  dark.addEventListener("change", recolor);
  stage.disconnect = () => {
    document.removeEventListener("keydown", keys);
    document.removeEventListener("pointerdown", away);
    window.removeEventListener("resize", fit);
    dark.removeEventListener("change", recolor);
    clearTimeout(stage.clock);
    clearTimeout(stage.restTimer);
  };
}

function showControls(stage) {
  const { buttons, scrub, store, shown } = stage;
  const { words } = stage.data;
  const running = isRunning(stage);
  stage.bar.setAttribute("aria-label", words.toolbar);
  for (const name of ["reset", "back", "step", "play", "end"]) say(buttons[name].label, words[name]);
  if (stage.shownRunning !== running) {
    stage.shownRunning = running;
    buttons.play.replaceChild(icon(running ? "stop" : "play"), buttons.play.firstChild);
    buttons.play.classList.toggle("kv-active", running);
  }
  if (running) say(buttons.play.label, words.stop);
  const speed = SPEEDS[stage.speed];
  say(stage.pace, speed.sign);
  stage.pace.title = words.speed.replace("{speed}", words[`speed_${speed.name}`]);
  stage.pace.setAttribute("aria-label", `${speed.sign} ${stage.pace.title}`);
  buttons.reset.disabled = buttons.back.disabled = shown < 0;
  buttons.step.disabled = atEnd(stage);
  buttons.play.disabled = atEnd(stage) && !running;
  buttons.end.disabled = atEnd(stage) || running;
  const last = Math.max(stage.reached, 0);
  const position = shown < 0 ? words.scrub_start : words.scrub_value.replace("{step}", shown).replace("{last}", last);
  scrub.max = String(last);
  scrub.disabled = stage.reached < 0;
  scrub.setAttribute("aria-label", words.scrub);
  scrub.setAttribute("aria-valuetext", position);
  if (!stage.scrubbing) scrub.value = String(shown);
  scrub.style.setProperty("--kv-done", `${((Number(scrub.value) + 1) / (last + 1)) * 100}%`);
  say(stage.position, position);
  stage.root.dataset.running = String(running);
  stage.root.dataset.done = String(atEnd(stage));
}

// The stage takes what the page's own header leaves, so that nothing scrolls on a laptop or a projector.
function fitToWindow(root) {
  const top = root.getBoundingClientRect().top + (root.closest("[data-testid=stMain]")?.scrollTop ?? 0);
  const height = Math.max(520, Math.floor(window.innerHeight - top - 10));
  root.style.setProperty("--kv-height", `${height}px`);
}
