// What the visitor does: buttons, keys, scrubber, clicks. Seeks are absolute, so that fast presses add up.

const TYPING = "input:not([type=range]), textarea, select, [contenteditable=true], [role=combobox], [role=listbox], [role=dialog] *";
const PLAY_PACE_MS = 700;

const send = (stage, name, value) => stage.component.setTriggerValue(name, value);

function seek(stage, wanted) {
  const frame = stage.frame;
  if (!frame) return;
  const target = Math.max(-1, frame.done ? Math.min(wanted, frame.last) : wanted);
  if (target === (stage.pending ?? frame.step)) return;
  clearTimeout(stage.clock);
  stage.halted = false;
  stage.pending = target;
  stage.nonce += 1;
  stage.root.dataset.pending = target;
  send(stage, "seek", { target, nonce: stage.nonce });
}

const stepBy = (stage, delta) => seek(stage, (stage.pending ?? stage.frame?.step ?? -1) + delta);

function start(stage, pace) {
  const frame = stage.frame;
  if (!frame || (frame.done && frame.step >= frame.last)) return;
  stage.pace = pace;
  stage.halted = false;
  send(stage, "run", { until_end: true, pace_ms: pace });
}

function halt(stage) {
  stage.halted = true;
  stage.pending = null;
  clearTimeout(stage.clock);
  send(stage, "stop", {});
}

const isRunning = (stage) => Boolean(stage.frame?.running) && !stage.halted;

const toggle = (stage, pace) => (isRunning(stage) ? halt(stage) : start(stage, pace));

function select(stage, ref) {
  if (!ref) return;
  const cut = ref.indexOf(":");
  const kind = ref.slice(0, cut);
  const id = kind === "block" ? Number(ref.slice(cut + 1)) : ref.slice(cut + 1);
  const now = stage.frame?.selection;
  // A second click on the same thing lets go of it.
  send(stage, "select", now && now.kind === kind && now.id === id ? { kind: null } : { kind, id });
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
    End: () => toggle(stage, 0),
    " ": () => toggle(stage, PLAY_PACE_MS),
    Escape: () => {
      if (!stage.lawsList.hidden) toggleLaws(stage, false);
      else if (stage.frame?.selection) send(stage, "select", { kind: null });
    },
  }[event.key];
  // Space on a focused button presses that button.
  if (!act || (event.key === " " && target.closest("button, summary, a, [role=tab], [tabindex='0']"))) return;
  event.preventDefault();
  act();
}

function connect(stage) {
  const { buttons, scrub, root } = stage;
  buttons.reset.onclick = () => seek(stage, -1);
  buttons.back.onclick = () => stepBy(stage, -1);
  buttons.step.onclick = () => stepBy(stage, 1);
  buttons.play.onclick = () => toggle(stage, PLAY_PACE_MS);
  buttons.end.onclick = () => toggle(stage, 0);
  // While dragging, only the newest place is asked for, and not more often than the stage can draw.
  scrub.oninput = () => {
    stage.scrubbing = true;
    clearTimeout(stage.scrubTimer);
    stage.scrubTimer = setTimeout(() => seek(stage, Number(scrub.value)), 60);
  };
  scrub.onchange = () => {
    stage.scrubbing = false;
    clearTimeout(stage.scrubTimer);
    seek(stage, Number(scrub.value));
  };
  stage.chip.onclick = () => send(stage, "select", { kind: null });
  stage.laws.onclick = () => toggleLaws(stage, stage.lawsList.hidden);
  const pick = (event) => select(stage, event.target.closest("[data-ref]")?.dataset.ref);
  for (const node of [stage.table, stage.why]) {
    node.addEventListener("click", pick);
    node.addEventListener("keydown", (event) => {
      if ((event.key === "Enter" || event.key === " ") && event.target.dataset.ref) {
        event.preventDefault();
        pick(event);
      }
    });
  }
  const keys = (event) => onKey(stage, event);
  const away = (event) => {
    if (!stage.lawsList.hidden && !event.target.closest(".kv-laws, .kv-laws-list")) toggleLaws(stage, false);
  };
  document.addEventListener("keydown", keys);
  document.addEventListener("pointerdown", away);
  const fit = () => fitToWindow(root);
  window.addEventListener("resize", fit);
  stage.disconnect = () => {
    document.removeEventListener("keydown", keys);
    document.removeEventListener("pointerdown", away);
    window.removeEventListener("resize", fit);
    clearTimeout(stage.clock);
    clearTimeout(stage.scrubTimer);
  };
}

// The stage takes what the page's own header leaves, so that nothing scrolls on a laptop or a projector.
function fitToWindow(root) {
  const top = root.getBoundingClientRect().top + (root.closest("[data-testid=stMain]")?.scrollTop ?? 0);
  const height = Math.max(520, Math.floor(window.innerHeight - top - 10));
  root.style.setProperty("--kv-height", `${height}px`);
}
