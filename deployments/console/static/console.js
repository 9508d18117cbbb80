// Behaviour of the console's pages, by `data-` attributes. No page has a script of its own.
"use strict";
(() => {
  const root = document.documentElement;
  const KEY = "kiosk-theme";

  // Theme: read before the first paint.
  const stored = (() => { try { return localStorage.getItem(KEY); } catch { return null; } })();
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;

  function switchTheme() {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem(KEY, root.dataset.theme); } catch { /* the choice holds for this page */ }
    for (const box of document.querySelectorAll("[data-chart]")) drawChart(box);
  }

  // Copying: where the clipboard is refused, the text is selected instead.
  async function copy(button) {
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = root.dataset.copied;
      setTimeout(() => { button.textContent = before; }, 1500);
    } catch {
      const code = button.parentElement.querySelector("code, pre");
      if (code) getSelection().selectAllChildren(code);
    }
  }

  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-theme-switch], [data-toggle], [data-dialog], [data-close], [data-copy]");
    if (!target) return;
    if ("themeSwitch" in target.dataset) switchTheme();
    else if (target.dataset.toggle) {
      const open = document.getElementById(target.dataset.toggle).classList.toggle("is-open");
      target.setAttribute("aria-expanded", String(open));
    } else if (target.dataset.dialog) document.getElementById(target.dataset.dialog).showModal();
    else if ("close" in target.dataset) target.closest("dialog").close();
    else copy(target);
  });

  document.addEventListener("keydown", (event) => {
    const side = document.querySelector(".side.is-open");
    if (event.key === "Escape" && side) {
      side.classList.remove("is-open");
      const button = document.querySelector("[data-toggle=side]");
      button.setAttribute("aria-expanded", "false");
      button.focus();
    }
  });

  // Another app: the same page of it.
  document.addEventListener("change", (event) => {
    const choice = event.target.closest("[data-app-choice]");
    if (choice) {
      const parts = location.pathname.split("/");
      const area = parts[2] === "apps" && parts[4] ? parts[4] : "";
      const known = document.querySelector(`.side a[href^="/console/apps/"]`);
      const path = area || (known ? known.getAttribute("href").split("/")[4] : "");
      location.assign(path ? `/console/apps/${encodeURIComponent(choice.value)}/${path}` : "/console/");
    } else if (event.target.dataset.submit !== undefined) event.target.form.requestSubmit();
  });

  // A form is sent once, and after its word was typed.
  document.addEventListener("submit", (event) => {
    const word = event.target.querySelector("[data-must-equal]");
    if (word && word.value !== word.dataset.mustEqual) {
      event.preventDefault();
      word.focus();
      return;
    }
    if (event.target.dataset.sent) event.preventDefault();
    else if (event.target.method === "post" && !event.target.hasAttribute("hx-post")) {
      event.target.dataset.sent = "yes";
      setTimeout(() => { delete event.target.dataset.sent; }, 5000);
    }
  });

  // htmx: the token of forms, and no polling while nobody looks.
  document.addEventListener("htmx:configRequest", (event) => {
    const token = document.querySelector('meta[name="csrf-token"]');
    if (token) event.detail.headers["X-CSRF-Token"] = token.content;
  });
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.detail.elt.closest("[data-live]")) event.preventDefault();
  });

  // Charts: the library loads with the first one.
  let library = null;
  function loadLibrary() {
    library = library || new Promise((resolve, reject) => {
      const style = document.createElement("link");
      style.rel = "stylesheet";
      style.href = root.dataset.uplotCss;
      const script = document.createElement("script");
      script.src = root.dataset.uplotJs;
      script.onload = resolve;
      script.onerror = reject;
      document.head.append(style, script);
    });
    return library;
  }

  // A value between gaps has no line, so it needs a point.
  const isSparse = (values) => values.some((value, at) => value != null && values[at - 1] == null && values[at + 1] == null);
  // Times are UTC, as everywhere on the pages.
  const timeLabels = (_, ticks, axis, space, step) => ticks.map((seconds) => {
    const text = new Date(seconds * 1000).toISOString();
    const isDay = step >= 86400 || (step >= 3600 && text.slice(11, 16) === "00:00");
    return isDay ? text.slice(5, 10) : text.slice(11, step >= 60 ? 16 : 19);
  });
  const drawn = new WeakMap();
  async function drawChart(box) {
    await loadLibrary();
    if (!box.isConnected) return;
    const spec = JSON.parse(box.dataset.chart);
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const series = spec.series.map((one, at) => ({
      label: one.label, stroke: colour(`--chart-${(at % 5) + 1}`), width: 1.75, spanGaps: false, points: { show: spec.x.length < 40 || isSparse(one.values) },
      ...(one.kind === "bars" ? { fill: colour("--bar"), paths: uPlot.paths.bars({ size: [0.7, 60] }), points: { show: false } } : {}),
    }));
    drawn.get(box)?.destroy();
    box.replaceChildren();
    drawn.set(box, new uPlot({
      width: Math.max(box.clientWidth, 200), height: spec.height || 180,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      scales: { x: { time: spec.time !== false }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, 1e-9) * 1.1] } },
      axes: [spec.time === false ? axis : { ...axis, values: timeLabels }, { ...axis, size: spec.unit ? 72 : 56, values: (_, ticks) => ticks.map((tick) => `${tick.toLocaleString("en")}${spec.unit ? ` ${spec.unit}` : ""}`) }],
      series: [{}, ...series], legend: { show: series.length > 1, live: false }, cursor: { drag: { x: false, y: false } },
    }, [spec.x, ...spec.series.map((one) => one.values)], box));
  }

  function drawAll(within) {
    for (const box of within.querySelectorAll("[data-chart]")) drawChart(box);
  }
  document.addEventListener("DOMContentLoaded", () => drawAll(document));
  document.addEventListener("htmx:afterSwap", (event) => drawAll(event.detail.target));
  let resizing = 0;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => drawAll(document), 200);
  });
})();
