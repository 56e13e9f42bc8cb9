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
      (holder) => !holder.closest("details:not([open]), [hidden]"),
    );

  // With a frame of its own a drawing shrinks to the width of the paper.
  const frame = (holder) => {
    for (const drawing of holder.querySelectorAll(".main-svg")) {
      drawing.setAttribute("viewBox", `0 0 ${drawing.getAttribute("width")} ${drawing.getAttribute("height")}`);
    }
  };

  const draw = (holder, figures) => {
    holder.dataset.drawn = "yes";
    const figure = figures[holder.dataset.figure];
    holder.replaceChildren();
    return window.Plotly.newPlot(holder, figure.data, figure.layout, config)
      .then(() => {
        frame(holder);
        holder.on("plotly_afterplot", () => frame(holder));
        holder.dispatchEvent(new Event("drawn", { bubbles: true }));
      });
  };

  const pause = () => new Promise((go) => { setTimeout(go, 0); });

  // One figure at a time, what is on the screen first, so that the page can be read meanwhile.
  const drawAll = async (inside) => {
    const { figures } = await data;
    await ready;
    const away = (holder) => {
      const box = holder.getBoundingClientRect();
      return box.bottom < 0 || box.top > window.innerHeight ? Math.abs(box.top) : 0;
    };
    const places = waiting(inside).map((holder) => [away(holder), holder]);
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
      holder.textContent = "This browser could not draw the figure; its numbers are in the table below.";
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

  document.addEventListener("shown", () => drawAll(document).catch(refuse));

  // A link to something closed opens it.
  const reveal = async (part, parts) => {
    const mark = `data-closed="${part}"`;
    if (!document.querySelector(`template[${mark}]`)) {
      const outer = parts.findIndex((text) => text.includes(`<template ${mark}>`));
      if (outer >= 0) await reveal(outer, parts);
    }
    const place = document.querySelector(`template[${mark}]`);
    if (!place) return;
    const details = place.closest("details");
    await build(details);
    details.open = true;
  };

  const follow = async () => {
    // Behind the question mark stands what was chosen (choose.js).
    const [name, chosen] = window.location.hash.slice(1).split("?");
    const id = decodeURIComponent(name);
    if (!id) return;
    const there = document.getElementById(id);
    if (there && chosen === undefined) return;
    if (there) {
      there.scrollIntoView();
      return;
    }
    const { parts } = await data;
    const part = parts.findIndex((text) => text.includes(`id="${id}"`));
    if (part < 0) return;
    await reveal(part, parts);
    document.getElementById(id)?.scrollIntoView();
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
  offerCopies(document);

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

  drawAll(document)
    .then(follow)
    .then(() => { root.dataset.figures = "ready"; })
    .catch(refuse);
})();
