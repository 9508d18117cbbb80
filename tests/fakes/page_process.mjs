// Pages that run the released bytes of `kiosk.js` without a browser: `node page_process.mjs URL KEY USER_AGENT`.
//
// Each line of the input is a step of a visitor, and each line of the output its result. Requests are real ones to the
// served API. A step may lose the answer to a request that the server got (`lost`), or the request (`unreachable`).
import {createInterface} from "node:readline";
import vm from "node:vm";

const [url, key, agent] = process.argv.slice(2);
const address = `${url}/kiosk.js`;
const script = new vm.Script(await (await fetch(address)).text(), {filename: address});
const FASTER = 50; // pauses before another try last so many times shorter
const LONG_MS = 5000; // but no timeouts
const UNTIL_MS = 60000;
const visitors = new Map(); // name -> {local, tab, page}
let nowMs = 0;

function openStore() {
  const values = new Map();
  return {
    getItem: (name) => (values.has(name) ? values.get(name) : null),
    setItem: (name, text) => values.set(name, String(text)),
  };
}

class PageDate extends Date {
  constructor(...values) { super(...(values.length ? values : [nowMs])); }
  static now() { return nowMs; }
}

function openPage(visitor) {
  const listeners = {};
  const timers = new Set();
  const page = {fault: "", lost: [], deliveries: new Map(), inFlight: new Set(), beacons: 1};

  // Note which interactions reached the server: requests of one idempotency key count once.
  function note(address, body, headers) {
    if (!/\/v1\/interactions\?/.test(address)) return;
    const delivery = (headers && headers["Idempotency-Key"]) || Symbol("delivery");
    for (const event of JSON.parse(body).data) {
      const deliveries = page.deliveries.get(event.event_id) || new Set();
      page.deliveries.set(event.event_id, deliveries.add(delivery));
    }
  }

  async function send(address, request) {
    const fault = page.fault;
    page.fault = "";
    if (fault === "unreachable") throw new TypeError("fetch failed");
    const response = await fetch(address, {...request, headers: {...request.headers, "User-Agent": agent}});
    if (response.ok) note(address, request.body, request.headers);
    else page.refused = `${response.status} ${await response.clone().text()}`;
    if (fault !== "lost") return response;
    page.lost.push((await response.json()).data);
    throw new TypeError("fetch failed");
  }

  function track(promise) {
    page.inFlight.add(promise);
    const done = () => page.inFlight.delete(promise);
    promise.then(done, done);
    return promise;
  }

  const sandbox = {
    console: {warn: (...words) => { page.warning = words.join(" "); }},
    crypto, URL, AbortController, TextEncoder, Date: PageDate, WeakMap,
    localStorage: visitor.local, sessionStorage: visitor.tab,
    location: {origin: "https://shop.example", pathname: "/", search: "", hash: ""},
    setTimeout: (callback, ms) => {
      const timer = setTimeout(() => { timers.delete(timer); callback(); }, ms < LONG_MS ? ms / FASTER : ms);
      timers.add(timer);
      return timer;
    },
    clearTimeout: (timer) => { timers.delete(timer); clearTimeout(timer); },
    fetch: (address, request) => track(send(address, request)),
    navigator: {
      sendBeacon: (address, body) => {
        for (let at = 0; at < page.beacons; at++) track(send(address, {method: "POST", body, keepalive: true}));
        return true;
      },
    },
    addEventListener: (name, callback) => (listeners[name] = listeners[name] || []).push(callback),
    document: {
      currentScript: {src: address, dataset: {key, flushMs: "60000", timeoutMs: "60000"}},
      readyState: "complete", visibilityState: "visible", addEventListener() {}, querySelectorAll: () => [],
    },
  };
  sandbox.window = sandbox;
  script.runInContext(vm.createContext(sandbox));
  page.kiosk = sandbox.kiosk;
  page.hide = () => (listeners.pagehide || []).forEach((callback) => callback());
  page.close = () => timers.forEach(clearTimeout);
  return page;
}

const until = async (condition) => {
  const deadline = Date.now() + UNTIL_MS;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error("a step did not end");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
};

const steps = {
  // A new tab: what the tab before knew of lists is gone, but not who the visitor is.
  open({name}) {
    const visitor = visitors.get(name) || {local: openStore()};
    visitors.set(name, visitor);
    visitor.tab = openStore();
    visitor.page = openPage(visitor);
    return {anonymous_id: visitor.page.kiosk.anonymousId};
  },
  async list({page}, {body, fault}) {
    Object.assign(page, {fault, lost: []});
    const reply = await page.kiosk.recommendation.user_to_products(body);
    if (!reply.ok) throw new Error(reply.message);
    return {shown: reply.data, lost: page.lost};
  },
  track({page}, {type, fields}) {
    page.kiosk.track(type, fields);
    return {};
  },
  // Send what waits, and try again as the script does until the server has answered.
  async flush({page}, {fault}) {
    page.fault = fault;
    let sent = 0;
    const stop = page.kiosk.on("call", (call) => { sent += call.status === 200 && /interactions/.test(call.path); });
    page.kiosk.flush();
    await until(() => sent || page.refused);
    stop();
    await page.kiosk.flush();
    return {};
  },
  // Leave the page: a beacon takes what waits, so many times. A reload opens it again in the same tab.
  async leave(visitor, {beacons, reload}) {
    const {page} = visitor;
    page.beacons = beacons;
    page.hide();
    while (page.inFlight.size) await Promise.all(page.inFlight);
    page.close();
    const repeated = [...page.deliveries.values()].reduce((sum, deliveries) => sum + deliveries.size - 1, 0);
    if (page.refused || page.warning) throw new Error(page.refused || page.warning);
    if (reload) visitor.page = openPage(visitor);
    return {repeated, anonymous_id: page.kiosk.anonymousId};
  },
};

process.stdout.write(`${JSON.stringify({node: process.version})}\n`);
for await (const line of createInterface({input: process.stdin})) {
  const {step, now_ms, ...given} = JSON.parse(line);
  nowMs = now_ms;
  let result;
  try {
    result = await steps[step](step === "open" ? given : visitors.get(given.name), given);
  } catch (error) {
    result = {error: String(error.stack || error)};
  }
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
process.exit(0);
