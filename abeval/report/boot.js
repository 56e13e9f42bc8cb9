(() => {
  "use strict";
  const packed = document.getElementById("plotly-gz");
  const holders = [...document.querySelectorAll("[data-figure]")];
  if (!packed || holders.length === 0) return;

  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: false,
    scrollZoom: false,
  };

  const unpack = async () => {
    const bytes = Uint8Array.from(atob(packed.textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    // The policy in the head knows the hash of this very text and runs nothing else.
    script.textContent = await new Response(stream).text();
    document.head.appendChild(script);
    if (!window.Plotly) throw new Error("the browser did not run the figure library");
  };

  const draw = async (holder) => {
    if (holder.dataset.drawn) return;
    holder.dataset.drawn = "yes";
    const figure = JSON.parse(document.getElementById(holder.dataset.figure).textContent);
    holder.replaceChildren();
    await window.Plotly.newPlot(holder, figure.data, figure.layout, config);
  };

  // A figure inside closed details has no width yet: it is drawn when they open.
  const later = (holder) => {
    const closed = holder.closest("details:not([open])");
    if (!closed) return draw(holder);
    closed.addEventListener("toggle", () => later(holder), { once: true });
    return undefined;
  };

  const refuse = (error) => {
    for (const holder of holders) {
      if (!holder.dataset.drawn) {
        holder.textContent = "This browser could not draw the figure; its numbers are in the table below.";
      }
    }
    console.warn("figures not drawn:", error.message);
  };

  unpack()
    .then(() => Promise.all(holders.map(later)))
    .then(() => { document.documentElement.dataset.figures = "ready"; })
    .catch(refuse);
})();
