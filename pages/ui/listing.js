// Source and compiled text side by side: a chosen source line marks and shows the lines that came of it.
export default function load({ data, parentElement }) {
  const root = parentElement.querySelector(".kv-listing");
  const made = root.listing ?? (root.listing = make(root));
  made.show(data);
}

function make(root) {
  let data = null;
  let shown = "";
  let chosen = null;
  const panes = { source: pane("source"), text: pane("text") };
  const said = document.createElement("div");
  said.className = "kv-listing-said";
  said.setAttribute("aria-live", "polite");
  root.replaceChildren(panes.source, panes.text, said);
  panes.source.addEventListener("click", (event) => {
    const line = event.target.closest("[data-line]");
    if (line) choose(Number(line.dataset.line));
  });
  panes.text.addEventListener("click", (event) => {
    const line = event.target.closest("[data-of]");
    if (line) choose(Number(line.dataset.of), false);
  });
  panes.source.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const last = data.first_line + data.source.length - 1;
    choose(Math.max(data.first_line, Math.min(last, (chosen ?? data.first_line - step) + step)));
  });

  function pane(name) {
    const made = document.createElement("div");
    made.className = `kv-listing-${name}`;
    made.tabIndex = 0;
    made.setAttribute("role", "region");
    return made;
  }
  function fill(pane, lines, label, attribute, numbers) {
    pane.setAttribute("aria-label", label);
    const rows = lines.map((text, index) => {
      const row = document.createElement("div");
      if (numbers[index] !== null) row.dataset[attribute] = numbers[index];
      row.dataset.number = attribute === "line" ? numbers[index] : index + 1;
      row.textContent = text || " ";
      return row;
    });
    pane.replaceChildren(...rows);
    pane.scrollTop = 0;
  }
  function choose(line, follow = true) {
    chosen = line;
    for (const row of root.querySelectorAll(".kv-on")) row.classList.remove("kv-on");
    const source = panes.source.querySelector(`[data-line="${line}"]`);
    const lines = [...panes.text.querySelectorAll(`[data-of="${line}"]`)];
    for (const row of [source, ...lines]) row?.classList.add("kv-on");
    if (source) into(panes.source, source);
    if (follow && lines[0]) into(panes.text, lines[0]);
    said.textContent = data.words.became.replace("{line}", line).replace("{n}", lines.length);
  }
  function into(pane, row) {
    const top = row.offsetTop - pane.offsetTop;
    if (top < pane.scrollTop || top > pane.scrollTop + pane.clientHeight - 20) pane.scrollTop = top - 40;
  }
  return {
    show(given) {
      data = given;
      if (data.name === shown) return;
      shown = data.name;
      const numbers = data.source.map((_, index) => data.first_line + index);
      fill(panes.source, data.source, data.words.source, "line", numbers);
      fill(panes.text, data.text, data.words.text, "of", data.lines);
      if (data.start) choose(chosen !== null && numbers.includes(chosen) ? chosen : data.start);
    },
  };
}
