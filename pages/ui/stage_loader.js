// All that travels with the page; the stage itself is fetched once, from where Streamlit's own scripts come.
const OWN = [...document.scripts].map((script) => script.src).find((source) => source.includes("/static/js/"));
const BASE = OWN ? OWN.split("static/js/")[0] : `${location.origin}/`;
const URL_OF_STAGE = `${BASE}vendor/stage.js?v=__VERSION__`;

export default function load(component) {
  let gone = false;
  let cleanup = null;
  import(URL_OF_STAGE).then(
    (stage) => {
      if (!gone) cleanup = stage.default(component);
    },
    () => {
      component.parentElement.querySelector(".kv-stage").textContent = component.data.words.no_plotly;
    },
  );
  return () => {
    gone = true;
    cleanup?.();
  };
}
