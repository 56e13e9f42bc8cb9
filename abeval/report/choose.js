(() => {
  "use strict";
  // What is shown of the page: rows, figures and tables of some metrics, variants, segments, roles.
  const tables = [...document.querySelectorAll("#scorecard table.scorecard")];
  if (!tables.length) return;
  const FEW = 8;
  // Parts whose tables name the metrics of the scorecard in a column.
  const LISTS = "#stability, #aa, #multiplicity, #segments, #cuts, #before, #dwell";
  // Their metrics are those of models.
  const OFFLINE = "#offline, #calibration, #quadrant, #traffics, #causes";
  const STATUSES = ["better", "non_inferior", "equivalent", "unclear", "too_little_data", "worse", "untrusted", "draft"];
  const NOTHING = { metric: "", variant: "", role: "", status: "", segment: "", sort: "" };
  const SORTS = {
    "name": "name, A to Z", "-name": "name, Z to A",
    "role": "role, goals first", "-role": "role, diagnostics first",
    "-effect": "effect, largest first", "effect": "effect, smallest first",
    "p": "p, smallest first", "-p": "p, largest first",
    "status": "status, better first", "-status": "status, worse first",
  };
  const state = { ...NOTHING };

  const element = (tag, attributes = {}, ...inside) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...inside);
    return made;
  };
  const distinct = (values) => [...new Set(values)];
  const holderOf = (table) => table.closest("[data-role]");

  const rows = tables.flatMap((table, t) => [...table.tBodies[0].rows].map((row, i) => ({
    row, table, place: i, role: holderOf(table).dataset.role, rank: t,
    metric: row.querySelector(".metric a").textContent,
    variant: row.querySelector(".variant")?.textContent ?? "",
    status: row.dataset.status,
    effect: row.dataset.lift === "" ? null : Number(row.dataset.lift),
    p: row.dataset.p === "" ? null : Number(row.dataset.p),
  })));
  const metrics = distinct(rows.map((each) => each.metric));
  const variants = distinct(rows.map((each) => each.variant)).filter(Boolean);
  const roleOf = new Map(rows.map((each) => [each.metric, each.role]));
  const segments = () => distinct([...document.querySelectorAll("[data-segment]")].map((e) => e.dataset.segment));

  const metricFits = (metric) => metric.toLowerCase().includes(state.metric.toLowerCase())
    && (!state.role || roleOf.get(metric) === state.role);
  const fits = (each) => metricFits(each.metric)
    && (!state.variant || each.variant === state.variant)
    && (!state.status || each.status === state.status);
  const active = () => ["metric", "variant", "role", "status", "segment"].filter((key) => state[key]);

  // Sorting: within each role, since a role has its own axis and its own p.
  const ORDER = {
    name: (each) => each.metric.toLowerCase(),
    effect: (each) => each.effect,
    p: (each) => each.p,
    status: (each) => STATUSES.indexOf(each.status),
    role: (each) => each.place,
  };
  const compared = (one, other, key, sign) => {
    const [a, b] = [ORDER[key](one), ORDER[key](other)];
    if (a === null || b === null) return (a === null) - (b === null) || one.place - other.place;
    return sign * ((a > b) - (a < b)) || one.place - other.place;
  };
  const sort = () => {
    const key = state.sort.replace("-", "") || "role";
    const sign = state.sort.startsWith("-") ? -1 : 1;
    for (const table of tables) {
      const own = rows.filter((each) => each.table === table);
      own.sort((one, other) => compared(one, other, key, key === "role" ? 1 : sign));
      table.tBodies[0].append(...own.map((each) => each.row));
      for (const head of table.tHead.querySelectorAll("th[data-sort]")) {
        if (head.dataset.sort === key) head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        else head.removeAttribute("aria-sort");
      }
    }
    const turned = key === "role" && sign < 0 ? [...tables].reverse() : tables;
    const end = document.getElementById("scorecard-end");
    for (const table of turned) end.before(holderOf(table));
  };

  const showRows = () => {
    for (const each of rows) each.row.hidden = !fits(each);
    for (const table of tables) {
      holderOf(table).hidden = !rows.some((each) => each.table === table && !each.row.hidden);
    }
  };

  // As the page prints a name: no mark turns the direction of writing.
  const printed = (name) => name.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  const plain = (text) => text.replaceAll("\u2212", "-").trim();
  const column = (table, name) =>
    [...(table.tHead?.rows[0]?.cells ?? [])].findIndex((cell) => plain(cell.textContent).toLowerCase() === name);
  const known = new Map(metrics.map((metric) => [plain(metric), metric]));
  const showLists = (inside) => {
    for (const table of inside.querySelectorAll("table:not(.scorecard)")) {
      if (!table.closest(LISTS)) continue;
      const [metric, variant, segment] = ["metric", "variant", "segment"].map((name) => column(table, name));
      for (const body of table.tBodies) {
        for (const row of body.rows) {
          const of = (at) => plain(row.cells[at]?.textContent ?? "");
          const name = metric < 0 ? undefined : known.get(of(metric));
          row.hidden = (name !== undefined && !metricFits(name))
            || (variant >= 0 && state.variant !== "" && of(variant) !== plain(state.variant))
            || (segment >= 0 && state.segment !== "" && of(segment) !== plain(state.segment));
        }
      }
    }
  };

  const showFigures = (inside) => {
    for (const figure of inside.querySelectorAll("article[data-key]")) {
      if (figure.closest(OFFLINE)) continue;
      const [part, ...names] = JSON.parse(figure.dataset.key).map(printed);
      const metric = names.find((name) => roleOf.has(name));
      const variant = names.find((name) => name !== metric && variants.includes(name));
      figure.hidden = (metric !== undefined && !metricFits(metric))
        || (part === "forest" && state.role !== "" && names[0] !== state.role)
        || (variant !== undefined && state.variant !== "" && variant !== state.variant);
    }
  };

  const showSegments = (inside) => {
    for (const part of inside.querySelectorAll("[data-segment]")) {
      part.hidden = state.segment !== "" && part.dataset.segment !== state.segment;
    }
    for (const body of inside.querySelectorAll(".segments tbody[data-metric]")) {
      body.hidden = !metricFits(body.dataset.metric);
      for (const row of body.rows) {
        const variant = row.querySelector(".variant");
        row.hidden = variant !== null && state.variant !== "" && variant.textContent !== state.variant;
      }
    }
  };

  // In a figure of all variants, the lines of one.
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const showLines = (holder) => {
    if (variants.length < 2 || !holder.data) return;
    const names = variants.map(escaped);
    const visible = holder.data.map((line) =>
      !names.includes(printed(line.name ?? "")) || !state.variant || printed(line.name) === escaped(state.variant));
    if (visible.some((yes, i) => yes !== (holder.data[i].visible ?? true))) {
      window.Plotly.restyle(holder, { visible });
    }
  };

  const showNotes = () => {
    for (const section of document.querySelectorAll("main > section")) {
      const parts = [...section.querySelectorAll("article[data-key], [data-segment], [data-role]")];
      const note = section.querySelector(":scope > .nothing");
      const none = parts.length > 0 && parts.every((part) => part.closest("[hidden]"))
        && !section.querySelector("details.more");
      if (none && !note) section.append(element("p", { class: "note nothing" }, "Nothing here of what was chosen."));
      if (!none && note) note.remove();
    }
  };

  const show = (inside) => {
    showLists(inside);
    showFigures(inside);
    showSegments(inside);
    showNotes();
  };

  const WORDS = { better: "better", non_inferior: "non-inferior", too_little_data: "too little data" };
  const ROLES = { goal: "goals", guardrail: "guardrails", diagnostic: "diagnostics" };
  const said = {
    metric: (value) => `metric “${value}”`, variant: (value) => `variant ${value}`,
    role: (value) => ROLES[value], status: (value) => `status ${WORDS[value] ?? value}`,
    segment: (value) => `segment ${value}`,
  };
  const sentence = () => active().map((key) => said[key](state[key])).join(", ");
  const report = () => {
    const count = rows.filter(fits).length;
    const sorted = state.sort ? ` Sorted by ${SORTS[state.sort]}.` : "";
    const chosen = sentence();
    message.textContent = `${count} of ${rows.length} rows${chosen ? `: ${chosen}` : ""}.${sorted}`;
    banner.hidden = !chosen;
    bannerText.textContent = `Only ${chosen}`;
    paper.hidden = !chosen && !state.sort;
    paper.textContent = `${chosen ? `Chosen: ${chosen}.` : ""}${sorted}`.trim();
  };

  // The address holds what was chosen, so that a link opens the same view.
  const idOf = () => window.location.hash.slice(1).split("?")[0];
  const write = () => {
    const chosen = Object.entries(state).filter(([, value]) => value);
    const text = chosen.length ? `?${new URLSearchParams(chosen)}` : "";
    try {
      window.history.replaceState(null, "", `#${idOf()}${text}`);
    } catch {
      // A frame without an address of its own.
    }
  };
  const read = () => {
    const text = window.location.hash.split("?").slice(1).join("?");
    const named = new URLSearchParams(text);
    const allowed = {
      variant: variants, role: Object.keys(ROLES), status: STATUSES, segment: segments(), sort: Object.keys(SORTS),
    };
    for (const key of Object.keys(NOTHING)) {
      const value = named.get(key) ?? "";
      state[key] = key === "metric" || allowed[key].includes(value) ? value : "";
    }
  };

  const apply = () => {
    sort();
    showRows();
    openDiagnostics();
    show(document);
    for (const [key, control] of controls) control.value = state[key];
    document.querySelectorAll(".js-plotly-plot").forEach(showLines);
    report();
    document.dispatchEvent(new Event("shown"));
  };
  const choose = (changes) => {
    Object.assign(state, changes);
    apply();
    write();
  };

  // A few diagnostics by name: their figures are in what is closed.
  const openDiagnostics = () => {
    const chosen = state.metric ? metrics.filter(metricFits) : [];
    if (!chosen.length || chosen.length > 4 || chosen.some((m) => roleOf.get(m) !== "diagnostic")) return;
    for (const details of document.querySelectorAll("details.more:not([open])")) {
      if (details.firstElementChild.textContent.startsWith("Diagnostics")) details.open = true;
    }
  };

  // The controls: only where there is something to choose.
  const controls = new Map();
  const field = (key, text, control) => {
    controls.set(key, control);
    control.addEventListener(control.tagName === "INPUT" ? "input" : "change", () => choose({ [key]: control.value }));
    control.id = `choose-${key}`;
    return element("div", {}, element("label", { for: control.id }, text), control);
  };
  const list = (options) => element("select", {}, ...options.map(([value, text]) => element("option", { value }, text)));
  const form = element("form", { class: "choose", role: "search", "aria-label": "What is shown" });
  const message = element("p", { class: "said", role: "status" });
  const bannerText = element("span");
  const everything = element("button", { type: "button" }, "Show all");
  const banner = element("div", { class: "chosen" }, bannerText, " ", everything);
  const paper = element("p", { class: "on-paper" });
  everything.addEventListener("click", () => {
    choose({ ...NOTHING, sort: state.sort });
    document.querySelector("nav a").focus({ preventScroll: true });
  });
  form.addEventListener("submit", (event) => event.preventDefault());

  const sortButtons = () => {
    const keys = [[".named", "name"], [".reading", "effect"], [".pvalue", "p"], [".outcome", "status"]];
    for (const table of tables) {
      for (const [place, key] of keys) {
        const head = table.tHead.querySelector(place);
        head.dataset.sort = key;
        const button = element("button", { type: "button" }, ...head.childNodes);
        const [first, second] = key === "effect" ? ["-effect", "effect"] : [key, `-${key}`];
        button.addEventListener("click", () =>
          choose({ sort: state.sort === first ? second : state.sort === second ? "" : first }));
        head.append(button);
      }
    }
  };

  const build = () => {
    const has = (values) => values.length > 1;
    const roles = distinct(rows.map((each) => each.role));
    const statuses = STATUSES.filter((status) => rows.some((each) => each.status === status));
    const fields = [];
    const long = rows.length > FEW;
    if (metrics.length > FEW) {
      const names = element("datalist", { id: "metric-names" }, ...metrics.map((value) => element("option", { value })));
      const search = element("input", { type: "search", list: "metric-names", autocomplete: "off", spellcheck: "false" });
      fields.push(field("metric", "Metric", search), names);
    }
    if (has(variants)) fields.push(field("variant", "Variant", list([["", "all"], ...variants.map((v) => [v, v])])));
    if (long && has(roles)) fields.push(field("role", "Role", list([["", "all"], ...roles.map((r) => [r, ROLES[r]])])));
    if (long && has(statuses)) {
      fields.push(field("status", "Status", list([["", "all"], ...statuses.map((s) => [s, WORDS[s] ?? s])])));
    }
    if (has(segments())) fields.push(field("segment", "Segment", list([["", "all"], ...segments().map((s) => [s, s])])));
    if (long) {
      fields.push(field("sort", "Sort by", list([["", "as planned"], ...Object.entries(SORTS)])));
      sortButtons();
    }
    return fields;
  };

  const fields = build();
  if (!fields.length) return;
  form.append(...fields, message);
  holderOf(tables[0]).before(form);
  document.querySelector("nav").append(banner);
  document.querySelector("main > header").append(paper);

  // A link leads to what it names, also where that was not chosen.
  const arrive = () => {
    const target = document.getElementById(decodeURIComponent(idOf()));
    if (!target?.closest("[hidden]")) return;
    choose({ ...NOTHING, sort: state.sort });
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", () => {
    if (window.location.hash.includes("?")) {
      read();
      apply();
    } else write();
    arrive();
  });
  document.addEventListener("built", (event) => show(event.target));
  document.addEventListener("drawn", (event) => showLines(event.target));
  read();
  apply();
  arrive();
})();
