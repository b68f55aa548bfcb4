// A row of pictures with buttons: equal traces came once, so a picture is a list of their numbers.
const PAUSE_MS = 900;

export default function load({ data, parentElement, key }) {
  const root = parentElement.querySelector(".kv-player");
  const player = root.player ?? (root.player = make(root));
  player.show(data);
}

function make(root) {
  let data = null;
  let at = 0;
  let timer = null;
  let shown = "";
  const bar = element("div", "kv-player-bar");
  const chart = element("div", "kv-player-chart");
  const said = element("span", "kv-player-said");
  const slider = element("input", "");
  slider.type = "range";
  slider.min = 0;
  slider.addEventListener("input", () => go(Number(slider.value)));
  const buttons = {
    first: () => go(0),
    back: () => go(at - 1),
    play: () => (timer ? stop() : play()),
    next: () => go(at + 1),
  };
  for (const [name, action] of Object.entries(buttons)) {
    const button = element("button", "");
    button.type = "button";
    button.dataset.name = name;
    button.addEventListener("click", () => {
      if (name !== "play") stop();
      action();
    });
    bar.append(button);
  }
  bar.append(slider, said);
  root.replaceChildren(bar, chart);
  chart.setAttribute("role", "img");
  new ResizeObserver(() => window.Plotly && chart.data && window.Plotly.Plots.resize(chart)).observe(chart);

  function element(tag, name) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    return made;
  }
  function stop() {
    clearTimeout(timer);
    timer = null;
    name("play", "play");
  }
  function play() {
    if (at === data.frames.length - 1) at = -1;
    const tick = () => {
      go(at + 1);
      if (at >= data.frames.length - 1) stop();
      else timer = setTimeout(tick, PAUSE_MS);
    };
    timer = setTimeout(tick, 0);
    name("play", "pause");
  }
  function name(button, word) {
    const found = bar.querySelector(`[data-name=${button}]`);
    found.textContent = data.words[word];
    found.setAttribute("aria-label", data.words[`${word}_label`]);
    found.title = data.words[`${word}_label`];
  }
  function go(wanted) {
    at = Math.max(0, Math.min(wanted, data.frames.length - 1));
    slider.value = at;
    said.textContent = data.captions[at];
    chart.setAttribute("aria-label", data.alts[at]);
    draw();
  }
  function draw() {
    if (!window.Plotly) {
      setTimeout(draw, 100);
      return;
    }
    const traces = data.frames[at].map((number) => data.traces[number]);
    window.Plotly.react(chart, traces, data.layout, { displayModeBar: false, responsive: false });
  }
  return {
    show(given) {
      data = given;
      for (const button of ["first", "back", "play", "next"]) name(button, button);
      slider.max = data.frames.length - 1;
      slider.setAttribute("aria-label", data.words.slider_label);
      chart.style.height = `${data.height}px`;
      if (data.name !== shown) {
        stop();
        shown = data.name;
        at = data.start;
      }
      go(at);
    },
  };
}
