(() => {
  "use strict";
  // What is shown of the page: a view, and in it a metric, a variant, an order of rows.
  const root = document.documentElement;
  const views = [...document.querySelectorAll(".view")];
  const tabs = [...document.querySelectorAll("nav .tabs a")];
  const tables = [...document.querySelectorAll("[data-role] > table.scorecard")];
  const choices = document.querySelector(".choices");
  const distinct = (values) => [...new Set(values)].filter(Boolean);
  const element = (tag, attributes = {}, ...inside) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...inside);
    return made;
  };

  const rowsOf = (table) => [...table.tBodies[0].rows].filter((row) => row.dataset.metric);
  const places = new Map(tables.flatMap(rowsOf).map((row, i) => [row, i]));
  const panels = new Map([...document.querySelectorAll(".panel")].map((panel) => [panel.dataset.metric, panel]));
  const variants = distinct([...places.keys()].map((row) => row.dataset.variant));
  const state = { metric: "", tab: "", variant: "", sort: "" };

  // Sorting: within each role, since a role has its own axis and its own p.
  const STATUSES = ["better", "non_inferior", "equivalent", "unclear", "too_little_data", "worse", "untrusted", "draft"];
  const number = (text) => (text === "" ? null : Number(text));
  const ORDER = {
    name: (row) => row.dataset.metric.toLowerCase(),
    effect: (row) => number(row.dataset.lift),
    p: (row) => number(row.dataset.p),
    status: (row) => STATUSES.indexOf(row.dataset.status),
  };
  const compared = (one, other, key, sign) => {
    const [a, b] = [ORDER[key](one), ORDER[key](other)];
    const before = places.get(one) - places.get(other);
    if (a === null || b === null) return (a === null) - (b === null) || before;
    return sign * ((a > b) - (a < b)) || before;
  };
  const sort = () => {
    const key = state.sort.replace("-", "");
    const sign = state.sort.startsWith("-") ? -1 : 1;
    for (const table of tables) {
      const rows = rowsOf(table);
      rows.sort((one, other) => (key ? compared(one, other, key, sign) : places.get(one) - places.get(other)));
      // A row that moves loses the focus.
      if (rowsOf(table).some((row, i) => row !== rows[i])) table.tBodies[0].append(...rows);
      for (const head of table.tHead.querySelectorAll("th[data-sort]")) {
        if (head.dataset.sort === key) head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        else head.removeAttribute("aria-sort");
      }
    }
  };
  const sortButtons = () => {
    const keys = [[".named", "name"], [".reading", "effect"], [".pvalue", "p"], [".outcome", "status"]];
    for (const table of tables.filter((one) => rowsOf(one).length > 4)) {
      for (const [place, key] of keys) {
        const head = table.tHead.querySelector(place);
        head.dataset.sort = key;
        const button = element("button", { type: "button" }, ...head.childNodes);
        const [one, two] = key === "effect" ? ["-effect", "effect"] : [key, `-${key}`];
        button.addEventListener("click", () =>
          choose({ sort: state.sort === one ? two : state.sort === two ? "" : one }));
        head.append(button);
      }
    }
  };

  // As the page prints a name: no mark turns the direction of writing.
  const printed = (name) => name.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const ofOther = (name) => state.variant !== "" && variants.includes(name) && name !== state.variant;

  const showVariants = (inside) => {
    root.toggleAttribute("data-filtered", state.variant !== "");
    for (const note of inside.querySelectorAll(".only")) {
      note.hidden = !state.variant;
      note.textContent = `Only ${state.variant} is drawn, against control. Explore has the choice.`;
    }
    for (const row of inside.querySelectorAll("[data-variant]")) row.hidden = ofOther(row.dataset.variant);
    for (const head of inside.querySelectorAll("[data-variants]")) {
      head.colSpan = state.variant ? 1 : Number(head.dataset.variants);
    }
    for (const figure of inside.querySelectorAll("article[data-key]")) {
      const names = JSON.parse(figure.dataset.key).slice(figure.closest(".panel") ? 2 : 1);
      figure.hidden = names.map(printed).some(ofOther);
    }
    inside.querySelectorAll(".js-plotly-plot[data-drawn=whole]").forEach(showLines);
  };
  // In a figure of all variants, the lines of one and of control.
  const showLines = (holder) => {
    if (variants.length < 2 || !holder.data) return;
    const visible = holder.data.map((line) =>
      !variants.some((name) => ofOther(name) && escaped(name) === printed(line.name ?? "").replace(/, (interval|as planned|always valid)$/, "")));
    if (visible.some((yes, i) => yes !== (holder.data[i].visible ?? true))) window.Plotly.restyle(holder, { visible });
  };

  // A metric opens below its rows; one at a time.
  const links = () => [...document.querySelectorAll("[data-role] > table .metric > a, .opens a")]
    .map((link) => [link, link.closest("[data-metric]").dataset.metric]);
  const place = (panel) => {
    const row = tables.flatMap(rowsOf).filter((one) => !one.hidden && one.dataset.metric === panel.dataset.metric).pop();
    if (!row) return;
    const cell = panel.closest("td") ?? element("td", { colspan: String(row.cells.length) }, panel);
    const holder = cell.parentElement ?? element("tr", { class: "opened" }, cell);
    holder.hidden = panel.hidden;
    if (holder.previousElementSibling !== row) row.after(holder);
  };
  const showTab = (panel) => {
    const tabs = [...panel.querySelectorAll(":scope > .tab")];
    const current = tabs.find((tab) => tab.dataset.tab === state.tab) ?? tabs[0];
    for (const tab of tabs) tab.hidden = tab !== current;
    for (const button of panel.querySelectorAll(":scope > .switch button")) {
      button.setAttribute("aria-pressed", String(button.dataset.tab === current?.dataset.tab));
    }
  };
  const showMetric = () => {
    for (const [metric, panel] of panels) {
      panel.hidden = metric !== state.metric;
      if (!panel.hidden || panel.closest("tr")) place(panel);
      if (!panel.hidden) showTab(panel);
    }
    for (const [link, metric] of links()) {
      if (!panels.has(metric)) continue;
      link.setAttribute("aria-expanded", String(metric === state.metric));
      link.setAttribute("aria-controls", panels.get(metric).id);
    }
    for (const row of places.keys()) row.classList.toggle("picked", row.dataset.metric === state.metric);
  };
  document.addEventListener("click", (event) => {
    const tab = event.target.closest?.(".switch button")?.dataset.tab;
    if (tab) choose({ tab });
    const link = event.target.closest?.("a[aria-expanded]");
    if (!link) return;
    event.preventDefault();
    const { metric } = link.closest("[data-metric]").dataset;
    choose({ metric: metric === state.metric ? "" : metric });
  });

  // The address holds what was chosen, so that a link opens the same view. An entry of the history
  // holds all of it: back and forward restore what a link would leave as it is.
  const idOf = () => {
    const [name] = window.location.hash.slice(1).split("?");
    try {
      return decodeURIComponent(name);
    } catch {
      return name;
    }
  };
  const write = () => {
    const target = document.getElementById(idOf());
    const id = target && !target.closest("[hidden]") ? target.id : root.dataset.view ?? "";
    const chosen = Object.entries(state).filter(([key, value]) => value && (key !== "tab" || state.metric));
    const text = chosen.length ? `?${new URLSearchParams(chosen)}` : "";
    const address = text || window.location.hash ? `#${encodeURIComponent(id)}${text}` : window.location.href;
    try {
      window.history.replaceState({ chosen: new URLSearchParams(state).toString() }, "", address);
    } catch {
      // A frame without an address of its own.
    }
  };
  const sorts = Object.keys(ORDER).flatMap((key) => [key, `-${key}`]);
  const isAllowed = {
    metric: (name) => name === "" || panels.has(name),
    tab: () => true,
    variant: (name) => name === "" || variants.includes(name),
    sort: (name) => ["", ...sorts].includes(name),
  };
  const read = () => {
    const [, ...rest] = window.location.hash.split("?");
    const named = new URLSearchParams(window.history.state?.chosen ?? rest.join("?"));
    root.dataset.target = idOf();
    const target = document.getElementById(idOf());
    const panel = target?.closest(".panel");
    if (panel) Object.assign(state, { metric: panel.dataset.metric, tab: target.closest(".tab")?.dataset.tab ?? state.tab });
    for (const key of Object.keys(state)) {
      const value = printed(named.get(key) ?? "");
      if (named.has(key) && isAllowed[key](value)) state[key] = value;
    }
    // What is packed has no place yet: it writes its address when it is there (boot.js).
    return target !== null || !idOf();
  };

  const showView = () => {
    const target = document.getElementById(idOf());
    const current = idOf() && views.find((one) => one.id === root.dataset.view);
    const view = target?.closest(".view") || current || views[0];
    if (!view) return;
    root.dataset.view = view.id;
    for (const one of views) one.classList.toggle("away", one !== view);
    for (const tab of tabs) {
      if (tab.hash === `#${view.id}`) tab.setAttribute("aria-current", "true");
      else tab.removeAttribute("aria-current");
    }
  };

  const apply = () => {
    showView();
    sort();
    showMetric();
    showVariants(document);
    control.value = state.variant;
    document.dispatchEvent(new Event("shown"));
  };
  const choose = (changes) => {
    Object.assign(state, changes);
    apply();
    write();
  };

  const control = element("select", { id: "choose-variant" },
    ...["", ...variants].map((name) => element("option", { value: name }, name || "all")));
  control.addEventListener("change", () => choose({ variant: control.value }));
  if (variants.length > 1 && choices) {
    const field = element("div", {}, element("label", { for: control.id }, "Variant"), control);
    choices.append(element("form", { class: "choose", "aria-label": "What is shown" }, field));
  }
  sortButtons();

  const scrollToMetric = () =>
    tables.flatMap(rowsOf).find((row) => row.dataset.metric === state.metric)?.scrollIntoView();
  document.addEventListener("choose", (event) => choose(event.detail));
  window.addEventListener("hashchange", () => {
    const isThere = read();
    apply();
    if (isThere) write();
    if (idOf() === "explore" && state.metric) scrollToMetric();
    else if (views.some((view) => view.id === idOf())) window.scrollTo(0, 0);
  });
  document.addEventListener("built", (event) => {
    showVariants(event.target);
    if (event.target.matches(".panel")) showTab(event.target);
  });
  document.addEventListener("drawn", (event) => showLines(event.target));
  const isThere = read();
  apply();
  if (isThere) write();
  if (idOf() === "explore" && state.metric) scrollToMetric();
})();
