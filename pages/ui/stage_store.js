// Frames in memory: a few ahead of the visitor, those behind, and the one request under way for what is missing.

const AHEAD = 4;
const KEPT = 40;
const MAX_STEP = 1e6; // "to the end": the server knows where that is
const REST_MS = 250;
const RETRY_MS = 1000;
const AROUND = ["strip", "laws", "head"];

// `view` names what frames depend on besides the step; parts outlive it, named by their content.
const emptyStore = (view) => ({ view, frames: new Map(), parts: new Map(), newest: null, last: -1, end: null, notice: "" });

const viewOf = (stage) => JSON.stringify([stage.data.run, stage.data.lang, stage.data.theme, stage.data.look, stage.select]);

const partsWanted = (stage) => [...AROUND, ...openPanels(stage)];

const isThere = (stage, step) => {
  const parts = stage.store.frames.get(step);
  return Boolean(parts) && partsWanted(stage).every((name) => stage.store.parts.has(parts[name]));
};

function absorb(stage, reply) {
  const { store } = stage;
  for (const [hash, part] of Object.entries(reply.parts)) store.parts.set(hash, part);
  for (const { step, parts } of reply.frames) store.frames.set(step, { ...store.frames.get(step), ...parts });
  store.newest = reply.frames.at(-1)?.step ?? store.newest;
  store.last = reply.last;
  store.end = reply.end;
  store.notice = reply.notice;
  if (store.end !== null && stage.target > store.end) {
    stage.target = store.end;
    restLater(stage);
  }
  if (store.frames.size > KEPT * 1.5) trim(stage);
}

function trim(stage) {
  const { store } = stage;
  const near = (step) => Math.abs(step - stage.shown);
  const kept = [...store.frames.keys()].sort((a, b) => near(a) - near(b)).slice(0, KEPT);
  store.frames = new Map(kept.map((step) => [step, store.frames.get(step)]));
  const used = new Set([...store.frames.values()].flatMap(Object.values));
  for (const hash of store.parts.keys()) if (!used.has(hash)) store.parts.delete(hash);
}

// What to ask the server next, or null. While scrubbing, only the place under the thumb counts.
function question(stage) {
  const { store, target, data } = stage;
  const until = Math.min(target + (stage.scrubbing ? 0 : stage.ahead), store.end ?? MAX_STEP);
  const steps = [];
  for (let step = target; step <= until; step += 1) if (!isThere(stage, step)) steps.push(step);
  if (!steps.length && stage.told === target && !stage.offline) return null;
  const near = [stage.shown, target - 1, target, store.newest].map((step) => store.frames.get(step) ?? {});
  return {
    run: data.run,
    cursor: target,
    steps,
    newest: steps[0] === target,
    panels: openPanels(stage),
    have: [...new Set(near.flatMap(Object.values))].filter((hash) => store.parts.has(hash)),
    lang: data.lang,
    theme: data.theme,
    look: data.look,
    select: stage.select,
  };
}

async function ask(stage, body) {
  stage.asking = new AbortController();
  const url = new URL(`../stage/${stage.data.visitor}/frames`, HERE);
  const reply = await fetch(url, { method: "POST", body: JSON.stringify(body), signal: stage.asking.signal });
  if (!reply.ok) throw new Error(`status ${reply.status}`);
  return reply.json();
}

// One request at a time, until nothing is missing. A move to where none was asked for ends the one under way.
async function fetchMissing(stage) {
  if (stage.asking) {
    if (!stage.asked.includes(stage.target) && !isThere(stage, stage.target)) stage.asking.abort();
    return;
  }
  for (let body = question(stage); body && !stage.gone; body = question(stage)) {
    const view = viewOf(stage);
    const wasOffline = stage.offline;
    stage.asked = body.steps;
    try {
      const reply = await ask(stage, body);
      stage.offline = false;
      if (reply.gone) {
        if (view === viewOf(stage)) lose(stage);
        break;
      }
      stage.told = body.cursor;
      if (view === viewOf(stage)) absorb(stage, reply);
    } catch (error) {
      if (error.name !== "AbortError") {
        stage.offline = true;
        show(stage);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
    if (wasOffline !== stage.offline || hasNews(stage)) show(stage);
  }
  stage.asking = null;
}

// Told once: the page then starts a new visit at the step shown.
function lose(stage) {
  if (stage.lost === stage.data.run) return;
  stage.lost = stage.data.run;
  startAnew(stage);
}

// The server runs the page again, which then goes on at the step shown.
function startAnew(stage) {
  stage.component.setTriggerValue("lost", { step: stage.shown });
}

// When the visitor rests, the address names this view.
function restLater(stage) {
  clearTimeout(stage.restTimer);
  stage.restTimer = setTimeout(() => {
    if (stage.scrubbing) {
      stage.scrubbing = false;
      show(stage);
    }
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(stage.data.link)) {
      if (value) query.set(name, value);
      else query.delete(name);
    }
    if (query.get("tour") === "1") query.delete("tour");
    query.set("step", stage.target >= MAX_STEP ? stage.shown + 1 : stage.target + 1);
    if (stage.select) query.set("select", `${stage.select.kind}:${stage.select.id}`);
    else query.delete("select");
    history.replaceState(history.state, "", `${location.pathname}?${query}${location.hash}`);
    fetchMissing(stage);
  }, REST_MS);
}
