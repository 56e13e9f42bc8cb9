(() => {
  "use strict";
  // Of a long table the first rows; a button shows the others. Paper has them all.
  // On a narrow screen each row is a card.
  const isUpTo = (width) => window.matchMedia(`(max-width: ${width}px)`).matches;
  const PAGE = isUpTo(700) ? 8 : isUpTo(1000) ? 12 : 20;
  const buttons = new Map();
  const whole = new Set();
  const rowsOf = (table) => [...table.tBodies].flatMap((body) => [...body.rows].filter((row) => !row.matches(".opened")));

  const shorten = (table) => {
    const left = rowsOf(table).filter((row) => !row.hidden && !row.parentElement.hidden);
    if (left.some((row, i) => i >= PAGE && row.matches(".picked"))) whole.add(table);
    const shown = whole.has(table) || left.length <= PAGE + 4 ? left.length : PAGE;
    left.forEach((row, i) => row.classList.toggle("beyond", i >= shown));
    const button = buttons.get(table);
    button.hidden = shown === left.length;
    button.textContent = `Show all ${left.length} rows`;
  };

  const reveal = (table) => {
    whole.add(table);
    shorten(table);
  };

  const watch = (table) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "all";
    buttons.set(table, button);
    table.closest(".wide").after(button);
    button.addEventListener("click", () => {
      const first = table.querySelector("tr.beyond");
      reveal(table);
      const stop = first.querySelector("a, button") ?? first;
      if (stop === first) first.tabIndex = -1;
      stop.focus();
    });
  };

  const look = () => {
    for (const table of document.querySelectorAll("main .wide > table")) {
      if (!buttons.has(table) && !table.closest("details.data") && rowsOf(table).length > PAGE + 4) watch(table);
    }
    for (const table of buttons.keys()) shorten(table);
  };

  // A link leads to a row that waits, too.
  const arrive = () => {
    const id = document.documentElement.dataset.target;
    const row = id && document.getElementById(id)?.closest("tr.beyond");
    if (!row) return;
    reveal(row.closest("table"));
    row.scrollIntoView();
  };

  document.addEventListener("shown", look);
  document.addEventListener("built", look);
  window.addEventListener("hashchange", arrive);
  look();
  arrive();
})();
