(() => {
  "use strict";
  const config = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };
  const root = document.documentElement;

  const unpacked = async (base64) => {
    const bytes = Uint8Array.from(atob(base64.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  const stored = async (id) => {
    const holder = document.getElementById(id);
    return holder ? unpacked(holder.textContent) : null;
  };

  const library = async () => {
    const text = await stored("plotly-gz");
    if (text === null) return;
    const script = document.createElement("script");
    // The policy in the head knows the hash of this very text and runs nothing else.
    script.textContent = text;
    document.head.appendChild(script);
    if (!window.Plotly) throw new Error("the browser did not run the figure library");
  };

  const data = stored("packed").then((text) => JSON.parse(text || '{"parts":[],"figures":{}}'));
  const ready = library();

  const waiting = (inside) =>
    [...inside.querySelectorAll("[data-figure]:not([data-drawn])")].filter(
      (holder) => !holder.closest("details:not([open])") && holder.offsetParent !== null,
    );

  // With a frame of its own a drawing shrinks to the width of the paper.
  const frame = (holder) => {
    for (const drawing of holder.querySelectorAll(".main-svg")) {
      drawing.setAttribute("viewBox", `0 0 ${drawing.getAttribute("width")} ${drawing.getAttribute("height")}`);
    }
  };

  // A narrow figure names fewer days.
  const room = 100;
  const nameDays = (holder, figure) => {
    const { margin, xaxis } = figure.layout;
    if (xaxis?.type !== "date" || !xaxis.tickvals) return null;
    const most = Math.max(2, (holder.clientWidth - margin.l - margin.r) / room);
    const step = Math.ceil(xaxis.tickvals.length / most);
    return xaxis.tickvals.filter((_, i) => i % step === 0);
  };

  const draw = (holder, figures) => {
    holder.dataset.drawn = "yes";
    const figure = figures[holder.dataset.figure];
    holder.replaceChildren();
    const days = nameDays(holder, figure);
    const layout = days ? { ...figure.layout, xaxis: { ...figure.layout.xaxis, tickvals: days } } : figure.layout;
    return window.Plotly.newPlot(holder, figure.data, layout, config)
      .then(() => {
        // What is changed before it is drawn whole stays blank.
        holder.dataset.drawn = "whole";
        frame(holder);
        holder.on("plotly_afterplot", () => {
          frame(holder);
          const fitting = nameDays(holder, figure);
          if (fitting && fitting.length !== holder.layout.xaxis.tickvals.length) window.Plotly.relayout(holder, { "xaxis.tickvals": fitting });
        });
        list(holder, figure);
        holder.dispatchEvent(new Event("drawn", { bubbles: true }));
      });
  };

  // The numbers of a figure as a table, from the texts of its points: made when it is opened.
  const element = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const plainText = (text) => new DOMParser().parseFromString(String(text), "text/html").documentElement.textContent;
  const list = (holder, figure) => {
    const lines = figure.data.filter((trace) => Array.isArray(trace.customdata));
    const tools = element("div", "", { class: "tools" });
    tools.append(pictures(holder, figure));
    holder.after(tools);
    if (!lines.length) return;
    const details = element("details", "", { class: "data" });
    details.append(element("summary", "Show data"));
    details.addEventListener("toggle", () => {
      if (details.querySelector("table")) return;
      const wide = element("div", "", { class: "wide", tabindex: "0", role: "group", "aria-label": "Numbers of the figure" });
      const table = element("table", "", { class: "plain" });
      table.append(element("caption", "Numbers of the figure", { class: "unseen" }));
      for (const trace of lines) {
        for (const said of trace.customdata) {
          const row = table.insertRow();
          if (trace.name) row.append(element("th", plainText(trace.name), { scope: "row" }));
          row.append(element("td", plainText(said)));
        }
      }
      wide.append(table);
      details.append(wide);
      offerCopies(details);
    });
    tools.prepend(details);
  };

  // A figure as a file, on white, with its title.
  const pictures = (holder, figure) => {
    const row = element("div", "", { class: "pictures" });
    const article = holder.closest("article");
    const text = article?.querySelector("h3")?.textContent.trim() ?? "";
    for (const format of ["png", "svg"]) {
      const button = element("button", format.toUpperCase(), { type: "button", "aria-label": `Save as ${format.toUpperCase()}: ${text}` });
      button.addEventListener("click", () => {
        const { layout } = figure;
        const titled = {
          ...layout,
          title: { text: text.replaceAll("&", "&amp;").replaceAll("<", "&lt;"), x: 0.01, xanchor: "left", y: 0.98, yanchor: "top" },
          margin: { ...layout.margin, t: layout.margin.t + 36 },
          paper_bgcolor: "#ffffff",
        };
        const size = { width: 1000, height: layout.height + 36, scale: 2 };
        window.Plotly.downloadImage({ data: figure.data, layout: titled }, { format, filename: article?.id || "figure", ...size });
      });
      row.append(button);
    }
    return row;
  };

  const pause = () => new Promise((go) => { setTimeout(go, 0); });

  // One figure at a time, what is on the screen first, so that the page can be read meanwhile.
  const drawAll = async (inside, within = "*") => {
    const { figures } = await data;
    await ready;
    const away = (holder) => {
      const box = holder.getBoundingClientRect();
      return box.bottom < 0 || box.top > window.innerHeight ? Math.abs(box.top) : 0;
    };
    const places = waiting(inside).filter((holder) => holder.closest(within)).map((holder) => [away(holder), holder]);
    places.sort((one, other) => one[0] - other[0]);
    for (const [, holder] of places) {
      if (!holder.dataset.drawn) {
        await draw(holder, figures);
        await pause();
      }
    }
  };

  const refuse = (error) => {
    for (const holder of document.querySelectorAll("[data-figure]:not(.js-plotly-plot)")) {
      holder.textContent = "This browser could not draw the figure.";
    }
    console.warn("figures not drawn:", error.message);
  };

  // What is closed is built when it is opened.
  const build = async (details) => {
    const { parts } = await data;
    const place = details.querySelector(":scope > template[data-closed]");
    if (!place) return;
    place.insertAdjacentHTML("afterend", parts[Number(place.dataset.closed)]);
    place.remove();
    offerCopies(details);
    details.dispatchEvent(new Event("built", { bubbles: true }));
  };

  const opened = (details) => build(details).then(() => drawAll(details)).catch(refuse);
  document.addEventListener("toggle", (event) => {
    if (event.target.matches?.("details[open]")) opened(event.target);
  }, true);

  // A metric that is chosen is built, then drawn.
  document.addEventListener("shown", async () => {
    for (const panel of document.querySelectorAll(".panel:not([hidden])")) await build(panel);
    await drawAll(document).catch(refuse);
    // A figure that was away while the window changed has its old width.
    for (const holder of document.querySelectorAll(".js-plotly-plot[data-drawn=whole]")) {
      const away = holder.offsetParent === null || holder.closest("details:not([open])");
      if (!away && holder.clientWidth !== holder._fullLayout.width) await window.Plotly.Plots.resize(holder);
    }
  });

  // A link to something closed opens it.
  const reveal = async (part, parts) => {
    const mark = `data-closed="${part}"`;
    if (!document.querySelector(`template[${mark}]`)) {
      const outer = parts.findIndex((text) => text.includes(`<template ${mark}>`));
      if (outer >= 0) await reveal(outer, parts);
    }
    const place = document.querySelector(`template[${mark}]`);
    if (!place) return;
    const holder = place.parentElement;
    await build(holder);
    if (holder.tagName === "DETAILS") holder.open = true;
    else document.dispatchEvent(new CustomEvent("choose", { detail: { metric: holder.dataset.metric } }));
  };

  const follow = async () => {
    const id = root.dataset.target;
    if (!id) return;
    if (!document.getElementById(id)) {
      const { parts } = await data;
      const part = parts.findIndex((text) => text.includes(`id="${id}"`));
      if (part < 0) return;
      await reveal(part, parts);
    }
    const there = document.getElementById(id);
    const tab = there?.closest(".tab")?.dataset.tab;
    document.dispatchEvent(new CustomEvent("choose", { detail: tab ? { tab } : {} }));
    if (there?.matches("details")) there.open = true;
    if (there && !there.classList.contains("view")) there.scrollIntoView();
  };
  window.addEventListener("hashchange", follow);

  // The numbers of a table, for a spreadsheet.
  const copy = async (button, table) => {
    const rows = [...table.rows].map((row) =>
      [...row.cells].map((cell) => cell.innerText.replace(/\s+/g, " ").trim()).join("\t"));
    try {
      await navigator.clipboard.writeText(rows.join("\n"));
      button.textContent = "Copied";
    } catch {
      window.getSelection().selectAllChildren(table);
      button.textContent = "Selected: copy with Ctrl+C";
    }
  };

  const offerCopies = (inside) => {
    for (const table of inside.querySelectorAll("details.data table.plain:not([data-copy])")) {
      table.dataset.copy = "yes";
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy these numbers";
      button.addEventListener("click", () => copy(button, table));
      table.closest(".wide").before(button);
    }
  };

  // Compressed downloads come out as plain files.
  document.addEventListener("click", async (event) => {
    const link = event.target.closest?.("a[data-plain]");
    if (!link) return;
    event.preventDefault();
    const text = await unpacked(link.href.slice(link.href.indexOf(",") + 1));
    const plain = document.createElement("a");
    plain.href = URL.createObjectURL(new Blob([text]));
    plain.download = link.dataset.plain;
    plain.click();
    URL.revokeObjectURL(plain.href);
  });

  // Paper has figures of views that are not on the screen: they are drawn unseen, in their place.
  const drawPrinted = async () => {
    root.classList.add("measured");
    await drawAll(document, ".printed");
    root.classList.remove("measured");
  };

  // The page is not loaded before: a browser that prints at once, without a reader, waits for them.
  const pending = document.createElement("iframe");
  pending.hidden = true;
  document.body.append(pending);
  pending.contentDocument.open();
  const finish = () => {
    pending.contentDocument?.close();
    pending.remove();
  };

  drawPrinted()
    .finally(finish)
    .then(() => drawAll(document))
    .then(follow)
    .then(() => { root.dataset.figures = "ready"; })
    .catch(refuse);
})();
