// Runs kiosk.js (its path is the argument) in an empty world, and prints each request and result as a line of JSON.

const {readFileSync} = require("node:fs");
const vm = require("node:vm");

const lines = [];
let counter = 0;
const answers = {
  "/v1/recommendation/user_to_products": [
    [503, {message: "starting"}, "0"],
    [200, {data: {service_id: "list-1", products: [{product_id: "a", title: "A"}, {product_id: "b"}]}}],
  ],
  "/v1/interactions": [
    [422, {errors: true, message: "refused", data: ["data.1.type is invalid. The attribute is required."]}],
    [429, {message: "Too many requests."}, "0"],
    [200, {message: "success"}],
  ],
  "/v1/ask/questions": [[200, {data: {question_id: "q-1"}}]],
  "/v1/ask/questions/q-1/answer": [1, 2, 2, 3].map((revision) => [
    200, {data: {revision, finished: revision === 3, answer: "x".repeat(revision)}},
  ]),
  "/v1/search/search": [[422, {detail: [{loc: ["body", "q"], msg: "field required", type: "x"}]}]],
};

async function fetch(address, {method, headers, body, keepalive}) {
  const url = new URL(address);
  if (url.pathname === "/visits") {
    lines.push({path: url.pathname, search: url.search, method, keepalive, visit: body});
    return {};
  }
  const {"Idempotency-Key": key, ...others} = headers;
  lines.push({path: url.pathname, search: url.search, method, headers: others, keyed: Boolean(key), keepalive, body: body && JSON.parse(body)});
  const [status, reply, retry] = (answers[url.pathname] || []).shift() || [200, {message: "success"}];
  return {
    status, ok: status < 400, json: async () => reply,
    headers: {get: (name) => (name === "Retry-After" && retry) || null},
  };
}

// Time stands still, and every pause is over at once; only the guard against silence must not fire.
const setTimeout = (run, ms) => (ms === 10000 ? 0 : (setImmediate(run), 1));
const world = {
  fetch, setTimeout, clearTimeout() {}, URL, AbortController, TextEncoder, console: {warn: (...words) => lines.push({warning: words[0]})},
  crypto: {getRandomValues: (bytes) => bytes.fill(++counter)},
  Date: class extends Date { constructor() { super(0); } static now() { return 0; } },
};
world.Math = Object.create(Math, {random: {value: () => 0.5}});
vm.runInNewContext(readFileSync(process.argv[2], "utf-8"), world);

// A visitor who followed a link of an agent's answer: the mark goes to Kiosk, and leaves the address bar.
function land(search) {
  world.location = {search, pathname: "/comet", hash: "#top"};
  world.history = {state: 1, replaceState: (state, _, address) => lines.push({state, address})};
  world.Kiosk.open({key: "kpk_dev_x", url: "https://kiosk.example/"});
  delete world.location;
}

(async () => {
  land("?a=1&kiosk_mark=t-_0..na%201%2F2&b=%20");
  land("?kiosk_mark=x.y.z&b");
  land("?kiosk_mark=%");
  land("?other_kiosk_mark=1");
  const kiosk = world.Kiosk.open({key: "kpk_dev_x", url: "https://kiosk.example/", userId: 7, userHash: "abc", userType: "free"});
  lines.push({version: kiosk.version, id: kiosk.anonymousId, names: Object.keys(kiosk), search: Object.keys(kiosk.user_history)});
  const list = await kiosk.recommendation.user_to_products({rows: 2});
  lines.push({ok: list.ok, data: list.data});
  kiosk.track("click", "a");
  kiosk.track("wrong", {product_ids: ["b", "c"]});
  kiosk.track("search", {search: {keywords: "fork"}});
  await kiosk.flush();
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  await kiosk.flush();
  const failed = await kiosk.search.search({});
  lines.push({ok: failed.ok, status: failed.status, message: failed.message});
  const seen = [];
  const answer = await kiosk.answer("Why?", (record) => { seen.push(record.answer); throw new Error("the page's fault"); });
  lines.push({seen, finished: answer.data.finished});
  kiosk.track("checkout", {product_ids: ["a"], quantities: [1], revenue: 5});
  await kiosk.flush();
  answers["/v1/interactions"].push([422, {errors: true, message: "refused", data: ["data.0.event_id is invalid. The attribute is not allowed."]}]);
  kiosk.track("click", "b");
  await kiosk.flush();
  kiosk.identify({userId: "gina", token: async () => "t.o.k"});
  await kiosk.user_history.list({rows: 1});
  kiosk.reset();
  await kiosk.bulk([{api_name: "search/search", body: {}}]);
  await kiosk.experiment("a b", {});
  lines.push({id: kiosk.anonymousId});
  console.log(lines.map((line) => JSON.stringify(line)).join("\n"));
})();
