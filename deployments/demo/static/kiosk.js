/*! kiosk.js 1.4.0 | Apache-2.0 */
/*
 * Calls Kiosk from a web page: lists, search, completions, questions, and a beacon for interactions.
 *
 *     <script async src="https://kiosk.example/kiosk-1.js" data-key="kpk_..."></script>
 *
 * With `data-key` the script opens `window.kiosk`. Without it, a page calls `Kiosk.open({key: "kpk_..."})`.
 * `docs/guides/browser.md` is the guide.
 *
 * Three rules hold everywhere:
 *   - Nothing throws into the page, and no promise rejects. A failed call resolves to `{ok: false, message, ...}`.
 *   - Nothing that a server sends becomes HTML. Texts go through `textContent`, links only to http(s).
 *   - The script needs no library, no cookie and nothing newer than ES2018.
 */
(function (root) {
  "use strict";

  const VERSION = "1.4.0";
  const doc = root.document;
  const script = doc && doc.currentScript;

  // Every operation that a publishable key may call. The names are those of the REST reference:
  // `kiosk.search.autocomplete(body)` is POST /v1/search/autocomplete.
  const OPERATIONS = {
    recommendation: "user_to_products user_to_categories user_to_attributes user_to_trending user_to_history product_to_products",
    search: "search autocomplete mget",
    ask: "questions answers search related_questions trending_questions query_suggestion autocomplete search_autocomplete",
    qa: "question_answering question_autocomplete",
    // These need the token of a signed-in user.
    "ask/user_history": "list thread thread/rename delete delete_all thread/updates thread/updates/subscribe " +
      "thread/updates/unsubscribe thread/updates/dismiss_thread thread/updates/dismiss_overall",
  };
  // The operations that accept simulated interactions.
  const SIMULATES = /^recommendation\/|^search\/(search|autocomplete)$/;

  const MOST_EVENTS = 50; // in one request; the server accepts 100 from a browser
  const MOST_BYTES = 60000; // a browser sends at most 64 kB after the page is gone
  const MOST_WAITING = 500; // events that wait while the server is away; older ones are dropped
  const MOST_REMEMBERED = 200; // products whose list is remembered
  const LONGEST_WAIT_MS = 30000;
  const LONGEST_ORDER_MS = 2000; // then a list no longer waits for the lists above it
  // A product counts as seen once half of it was on the screen for a second: the usual rule for a viewable impression.
  const SEEN = "viewable_impression";
  const SEEN_SHARE = 0.5;
  const SEEN_MS = 1000;

  const now = () => Date.now();
  const text = (value) => (value === undefined || value === null ? "" : String(value));

  // `target` may be absent: not every call has a signal.
  const listen = (target, name, callback, capture) => target && target.addEventListener(name, callback, capture);

  // Tell the developer, never the visitor.
  function warn(message, error) {
    root.console.warn("kiosk: " + message, error || "");
  }

  // Call a function of the page. What it throws is reported and goes no further.
  function guarded(callback, ...values) {
    try {
      if (callback) callback(...values);
    } catch (error) {
      warn("a callback of the page failed", error);
    }
  }

  function uuid() {
    const bytes = root.crypto.getRandomValues(new Uint8Array(16)); // `randomUUID` is missing on pages without TLS
    bytes[6] = (bytes[6] & 15) | 64;
    bytes[8] = (bytes[8] & 63) | 128;
    const hex = Array.from(bytes, (byte) => (byte + 256).toString(16).slice(1)).join("");
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  }

  // First-party storage that falls back to memory: a browser may refuse storage, and a page may not want it.
  function openStorage(name, allowed) {
    const memory = {};
    let store = null;
    try {
      store = allowed && root[name];
    } catch (error) { /* the browser refuses */ }
    return {
      get(key) {
        try {
          return store ? JSON.parse(store.getItem("kiosk." + key)) : memory[key];
        } catch (error) {
          return undefined;
        }
      },
      set(key, value) {
        try {
          if (store) store.setItem("kiosk." + key, JSON.stringify(value));
          else memory[key] = value;
        } catch (error) { /* the storage is full */ }
      },
    };
  }

  function sleep(ms, signal) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      listen(signal, "abort", () => { clearTimeout(timer); resolve(); });
    });
  }

  // A link in an answer of the archive led here: count the visit, and keep the mark out of links that people share.
  function reportVisit(base) {
    const {location, history} = root;
    const [part, mark] = (location && /[?&]kiosk_mark=([^&]+)/.exec(location.search)) || [];
    if (!mark) return;
    const search = location.search.replace(part, "").replace(/^&/, "?");
    history.replaceState(history.state, "", location.pathname + search + location.hash);
    const request = {method: "POST", body: decodeURIComponent(mark), keepalive: true, credentials: "omit"};
    fetch(base.slice(0, -3) + "visits", request).catch(() => {});
  }

  // 0 is no answer at all: offline, a timeout, a server that is restarting.
  const isPassing = (reply) => !reply.status || reply.status === 429 || reply.status >= 500;

  // What the server asks for, or else longer with each try; at random, so that not all visitors return at once.
  function pauseMs(reply, tries) {
    return Math.max(reply.retryAfterMs, 500 * 2 ** tries * (0.5 + Math.random() / 2));
  }

  function open(options) {
    const settings = {flushMs: 1000, timeoutMs: 10000, retries: 3, ...options};
    const origin = script && script.src ? new URL(script.src).origin : "";
    const base = text(settings.url || origin).replace(/\/+$/, "") + "/v1/";
    guarded(reportVisit, base);
    const isAllowed = settings.storage !== "memory";
    const local = openStorage("localStorage", isAllowed);
    const tab = openStorage("sessionStorage", isAllowed);
    const listeners = {};
    let user = settings;
    // The key stands in the address: a header would make the browser ask for permission before each call.
    const keyed = (path) => base + path + "?api_key=" + encodeURIComponent(settings.key);
    let anonymousId = settings.anonymousId;
    let session = (settings.session && tab.get("session")) || [];
    let lists = tab.get("lists") || []; // [product id, service id], newest last

    if (!anonymousId) {
      anonymousId = local.get("anonymous_id") || uuid();
      local.set("anonymous_id", anonymousId);
    }

    function emit(name, value) {
      (listeners[name] || []).forEach((listener) => guarded(listener, value));
    }

    // Who asks, as fields of a body.
    function identity() {
      // JSON leaves out what is undefined.
      return {
        anonymous_id: anonymousId, anonymous_hash: settings.anonymousHash || undefined,
        ...(user.userId && {
          user_id: text(user.userId), user_hash: user.userHash || undefined, user_type: user.userType || undefined,
        }),
      };
    }

    // --- calls ---------------------------------------------------------------------------------------------------

    async function send(method, path, body, {signal, headers, keepalive} = {}) {
      const url = keyed(path);
      const request = {method, path: "/v1/" + path, url, body};
      const started = now();
      const reply = {ok: false, status: 0, data: {}, message: "", retryAfterMs: 0, request};
      const abort = new AbortController();
      const stop = () => abort.abort();
      const timer = setTimeout(stop, settings.timeoutMs);
      listen(signal, "abort", stop);
      try {
        const token = typeof user.token === "function" ? await user.token() : user.token;
        const all = {...headers, ...(token && {Authorization: "Bearer " + token})};
        // Without a content type the request is a simple one: the browser asks no permission first.
        const response = await fetch(url, {
          method, headers: all, keepalive, signal: abort.signal, credentials: "omit",
          body: JSON.stringify(body),
        });
        reply.status = response.status;
        reply.ok = response.ok;
        reply.retryAfterMs = Math.max(0, 1000 * parseFloat(response.headers.get("Retry-After"))) || 0;
        const parsed = await response.json();
        reply.body = parsed;
        reply.data = parsed.data === undefined ? {} : parsed.data;
        const faults = parsed.detail || [];
        reply.message = text(parsed.message) || faults.map((one) => one.loc.join(".") + ": " + one.msg).join("; ");
        if (reply.ok && path !== "search/mget") remember(parsed.data); // a look-up by id is no list
      } catch (error) {
        reply.ok = false;
        reply.message = signal && signal.aborted ? "aborted" : text(error.message || error);
      }
      clearTimeout(timer);
      if (signal) signal.removeEventListener("abort", stop);
      emit("call", {...request, status: reply.status, ms: now() - started, reply});
      return reply;
    }

    // Send a request and repeat it while the fault passes. `path` is what follows `/v1/`.
    async function call(path, body, options) {
      options = options || {};
      const method = options.method || (body === undefined ? "GET" : "POST");
      for (let tries = 0; ; tries++) {
        const reply = await send(method, path, body, options);
        const aborted = options.signal && options.signal.aborted;
        if (reply.ok || aborted || !isPassing(reply) || tries >= settings.retries) return reply;
        const ms = pauseMs(reply, tries);
        if (ms > LONGEST_WAIT_MS) return reply;
        await sleep(ms, options.signal);
      }
    }

    // A body with who asks and, if the page wants it, what they did.
    function filled(path, body) {
      const simulated = session.length && SIMULATES.test(path) && {additional_interactions: session};
      return {...identity(), ...simulated, ...body};
    }

    // Send several queries as one request: `[{api_name: "search/search", body: {...}}, ...]`.
    function bulk(requests, options) {
      const all = requests.map((one) => ({...one, body: filled(one.api_name, one.body)}));
      return call("bulk", {requests: all}, options);
    }

    // Ask a question and follow its answer. `onUpdate` gets the answer record each time it grew.
    async function answer(question, onUpdate, options) {
      const body = typeof question === "string" ? {question} : question;
      const asked = await client.ask.questions(body, options);
      return asked.ok ? follow(asked.data.question_id, onUpdate, options) : asked;
    }

    // Read an answer until it is finished; also for the `question_id` of `ask.search`.
    async function follow(questionId, onUpdate, options) {
      options = options || {};
      const path = "ask/questions/" + encodeURIComponent(questionId) + "/answer";
      const deadline = now() + (options.deadlineMs || 120000);
      let revision = 0;
      let wait = 150;
      for (;;) {
        const reply = await call(path, undefined, options);
        if (!reply.ok) return reply;
        if (reply.data.revision > revision) {
          revision = reply.data.revision;
          wait = 150;
          guarded(onUpdate, reply.data);
        }
        if (reply.data.finished || now() > deadline) return reply;
        await sleep(wait, options.signal);
        wait = Math.min(wait * 1.5, 2000);
      }
    }

    // --- which list a product came from --------------------------------------------------------------------------

    // Note the products of a reply, so that a later interaction carries the `service_id` of its list.
    function remember(data) {
      const found = new Map();
      (function walk(value, serviceId) {
        if (!value || typeof value !== "object") return;
        const id = value.service_id || serviceId;
        if (id && typeof value.product_id === "string") found.set(value.product_id, id);
        Object.values(value).forEach((part) => walk(part, id));
      })(data, "");
      if (!found.size) return;
      lists = lists.filter((entry) => !found.has(entry[0])).concat([...found]).slice(-MOST_REMEMBERED);
      tab.set("lists", lists); // the click often counts on the next page
    }

    // The list that all these products came from, if it is one.
    function listOf(productIds) {
      const serviceIds = new Map(lists);
      const ids = new Set((productIds || []).map((id) => serviceIds.get(id)));
      return ids.size === 1 ? [...ids][0] : undefined;
    }

    // --- interactions --------------------------------------------------------------------------------------------

    let queue = [];
    let batch = null; // what is being sent, or waits to be sent again
    let sending = null;
    let timer = 0;
    let failures = 0;
    let readOnly = settings.session === "only"; // nothing is stored: the page sends its interactions with each call

    // Record an interaction: `track("click", "trowel-02")` or `track("search", {search: {keywords: "fork"}})`.
    function track(type, fields) {
      try {
        const given = typeof fields === "string" ? {product_ids: [fields]} : {...fields};
        const event = {type, timestamp: new Date().toISOString(), ...given};
        const serviceId = given.service_id || listOf(given.product_ids);
        if (serviceId) event.service_id = serviceId;
        if (settings.session) {
          session = session.concat(event).slice(-MOST_EVENTS);
          tab.set("session", session);
        }
        emit("interaction", event);
        enqueue(event);
      } catch (error) {
        warn("the interaction was not recorded", error);
      }
    }

    function enqueue(event) {
      if (readOnly) return;
      const page = root.location ? {url: root.location.origin + root.location.pathname} : undefined;
      const who = identity();
      if (!who.user_hash) delete who.user_type; // there it would prove nothing, and is not known
      // With an id of its own, an interaction that is sent twice counts once.
      const sent = {...who, ...(page && {context: {page}}), event_id: uuid(), ...event};
      queue = queue.concat(sent).slice(-MOST_WAITING);
      if (queue.length >= MOST_EVENTS && !failures) flush();
      else timer = timer || setTimeout(flush, settings.flushMs);
    }

    function take() {
      if (!queue.length) return null;
      let events = queue.slice(0, MOST_EVENTS);
      const isLarge = () => new TextEncoder().encode(JSON.stringify(events)).length > MOST_BYTES;
      while (events.length > 1 && isLarge()) events = events.slice(0, events.length >> 1);
      queue = queue.slice(events.length);
      // Money must not count twice when an answer was lost. For the rest the key would cost more than it saves.
      const isOnce = events.some((event) => /^(checkout|refund)$/.test(event.type));
      return {events, keepalive: !isLarge(), headers: isOnce && {"Idempotency-Key": uuid()}};
    }

    // Send what waits, now. The promise resolves when it was sent or has to wait.
    function flush() {
      clearTimeout(timer);
      timer = 0;
      if (!sending) {
        sending = deliver().catch((error) => warn("interactions were not sent", error)).then(() => { sending = null; });
      }
      return sending;
    }

    async function deliver() {
      while ((batch = batch || take())) {
        const {events} = batch;
        const reply = await send("POST", "interactions", {data: events}, batch);
        if (isPassing(reply)) {
          timer = setTimeout(flush, Math.min(pauseMs(reply, Math.min(failures++, 5)), 10 * LONGEST_WAIT_MS));
          return;
        }
        failures = 0;
        batch = null;
        if (reply.status === 422 && reply.body) queue = withoutFaults(events, reply.body).concat(queue);
        if (reply.status === 400 && /playground/.test(reply.message)) {
          readOnly = true; // the sample app accepts no writes: this is no fault of the page
          queue = [];
        } else if (!reply.ok) {
          warn("interactions were refused: " + reply.message, reply.body);
        }
      }
    }

    // One invalid event refuses all of its request. The messages name it: `data.3.type is invalid. ...`
    function withoutFaults(events, body) {
      // A server of an earlier release knows no `event_id`.
      if (/\.event_id /.test(JSON.stringify(body))) return events.map(({event_id, ...event}) => event);
      const refused = new Set([].concat(body.data).map((one) => Number((/^data\.(\d+)/.exec(one) || [])[1])));
      return refused.has(NaN) ? [] : events.filter((event, at) => !refused.has(at));
    }

    // The page is going away: hand everything to the browser.
    function drain() {
      try {
        if (batch && !sending) queue = batch.events.concat(queue);
        if (!sending) batch = null;
        for (let part = take(); part; part = take()) {
          const body = {data: part.events};
          // A beacon carries no header, so it can't carry a token.
          const isSent = !user.token && root.navigator.sendBeacon(keyed("interactions"), JSON.stringify(body));
          if (!isSent) send("POST", "interactions", body, part);
        }
      } catch (error) {
        warn("the last interactions were not sent", error);
      }
    }

    // --- which products were seen --------------------------------------------------------------------------------

    const observed = new WeakMap(); // element -> its product, its list, and the timer of its second
    let visibleSince = 0; // when the tab came to the front
    const observer = settings.impressions !== "off" && root.IntersectionObserver &&
      new root.IntersectionObserver((entries) => entries.forEach((entry) => {
        const item = observed.get(entry.target);
        clearTimeout(item.timer);
        if (entry.intersectionRatio >= SEEN_SHARE) item.timer = setTimeout(() => see(entry.target, item), SEEN_MS);
      }), {threshold: SEEN_SHARE});

    // Report once that `element`, which shows a product of a list, was really seen.
    function observe(element, productId, serviceId) {
      try {
        const list = serviceId || listOf([productId]);
        if (!observer || !list) return;
        clearTimeout((observed.get(element) || {}).timer);
        observed.set(element, {productId, list});
        observer.unobserve(element);
        observer.observe(element); // calls back soon, also if the element is visible already
      } catch (error) {
        warn("the element is not observed", error);
      }
    }

    function see(element, {productId, list}) {
      // A tab in the background shows nothing: begin again when it is in front.
      const isShort = doc.visibilityState === "hidden" || now() - visibleSince < SEEN_MS;
      if (isShort) return observe(element, productId, list);
      observer.unobserve(element);
      const waiting = queue.find((event) => event.type === SEEN && event.service_id === list);
      if (waiting) waiting.product_ids.push(productId); // one event for the products of a list
      else enqueue({type: SEEN, timestamp: new Date().toISOString(), product_ids: [productId], service_id: list});
    }

    // --- the client ----------------------------------------------------------------------------------------------

    const client = {
      version: VERSION,
      get anonymousId() { return anonymousId; },
      get session() { return session.slice(); },
      call, bulk, answer, follow, track, observe, flush,
      // Needs the switch `publishable_experiments` of the app.
      experiment: (name, body) => call("experiments/" + encodeURIComponent(name) + "/events", {
        anonymous_id: anonymousId, ...(user.userId && {user_id: text(user.userId)}), ...body}),
      // Name the user who signed in: {userId, userHash} or {userId, token}. The visitor's history becomes theirs.
      identify(who) { user = who || {}; },
      // The user signed out: the next interactions belong to a new visitor.
      reset() {
        user = {};
        anonymousId = uuid();
        local.set("anonymous_id", anonymousId);
        client.clearSession();
      },
      clearSession() {
        session = [];
        tab.set("session", session);
      },
      // Listen to "call" or "interaction"; the result stops listening.
      on(name, listener) {
        listeners[name] = (listeners[name] || []).concat(listener);
        return () => { listeners[name] = listeners[name].filter((one) => one !== listener); };
      },
    };
    Object.keys(OPERATIONS).forEach((group) => {
      const named = (client[group.split("/").pop()] = {});
      OPERATIONS[group].split(" ").forEach((name) => {
        const path = group + "/" + name;
        named[name.replace(/\//g, "_")] = (body, options) => call(path, filled(path, body), options);
      });
    });
    if (doc) {
      listen(root, "pagehide", drain);
      listen(doc, "visibilitychange", () => {
        if (doc.visibilityState === "hidden") drain();
        else visibleSince = now();
      });
    }
    return client;
  }

  // --- pages without code: data attributes ---------------------------------------------------------------------------

  // <ul data-kiosk-list="recommendation.user_to_products" data-kiosk-body='{"rows": 4}'></ul>
  // Fill one list, without the products of `shown`, and add its products to them.
  async function fill(client, place, shown, isDistinct) {
    const [group, name] = place.dataset.kioskList.split(".");
    const body = {fl: ["title", "url"], ...JSON.parse(place.dataset.kioskBody || "{}")};
    if (isDistinct) body.exclude = shown.concat(body.exclude || []);
    const reply = await client[group][name](body);
    if (!reply.ok) throw reply.message;
    place.replaceChildren(...(reply.data.products || []).map((product) => {
      shown.push(product.product_id);
      // Without an address, a product is a button, which the keyboard reaches too.
      const isLink = /^https?:\/\//i.test(product.url);
      const link = doc.createElement(isLink ? "a" : "button");
      link.textContent = product.title || product.product_id;
      link.dataset.kioskProduct = product.product_id;
      link[isLink ? "href" : "type"] = isLink ? product.url : "button";
      const line = doc.createElement(/^[uo]l$/i.test(place.tagName) ? "li" : "div");
      line.append(link);
      client.observe(line, product.product_id, reply.data.service_id);
      return line;
    }));
  }

  function attach(client) {
    const all = (name, callback) => doc.querySelectorAll("[data-kiosk-" + name + "]").forEach(callback);
    const shown = [];
    const above = [];
    const isLate = sleep(LONGEST_ORDER_MS);
    // <a data-kiosk-product="trowel-02"> counts a click; data-kiosk-type="add_to_cart" counts another interaction.
    listen(doc, "click", (event) => {
      const at = event.target.closest && event.target.closest("[data-kiosk-product]");
      if (at) client.track(at.dataset.kioskType || "click", at.dataset.kioskProduct);
    }, true);
    // <main data-kiosk-view="trowel-02"> counts a view of the page.
    all("view", (at) => client.track("product_detail_page_view", at.dataset.kioskView));
    // A list of recommendations leaves out what the lists above it show, so it waits for them.
    // With data-kiosk-repeat it does neither; nor do searches and histories, whose products a page asks for.
    all("list", (at) => {
      const isDistinct = /_to_(products|trending)$/.test(at.dataset.kioskList) && !("kioskRepeat" in at.dataset);
      const start = isDistinct && Promise.race([Promise.all(above), isLate]);
      above.push(Promise.resolve(start).then(() => fill(client, at, shown, isDistinct))
        .catch((error) => warn("a list stays empty", error)));
    });
  }

  root.Kiosk = {version: VERSION, open};
  if (script && script.dataset.key) {
    try {
      // data-key, data-url, data-user-id, data-user-hash, data-token, data-storage, data-session: see the guide.
      const client = (root.kiosk = open({...script.dataset}));
      if (doc.readyState !== "loading") attach(client);
      else listen(doc, "DOMContentLoaded", () => attach(client));
    } catch (error) {
      warn("the script could not start", error);
    }
  }
})(typeof window === "undefined" ? globalThis : window);
