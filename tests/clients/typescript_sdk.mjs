// The official TypeScript SDK, release 1 (`sdk`) and release 2 (`client`): the whole way, told as one line of JSON.
//
//   node typescript_sdk.mjs sdk|client [auto|2026-07-28]        run below the folder its node_modules stand in
//
// With a second argument, release 2 uses no handshake and signs in by the metadata document at DOCUMENT.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const which = process.argv[2];
const mode = process.argv[3];
const options = { capabilities: {} };
if (mode) options.versionNegotiation = { mode: mode === "auto" ? mode : { pin: mode } };
const require = createRequire(process.env.CLIENT_ROOM + "/");
const load = async (name) => import(pathToFileURL(require.resolve(name)));
let Client, StreamableHTTPClientTransport, UnauthorizedError;
if (which === "sdk") {
  ({ Client } = await load("@modelcontextprotocol/sdk/client/index.js"));
  ({ StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js"));
  ({ UnauthorizedError } = await load("@modelcontextprotocol/sdk/client/auth.js"));
} else {
  ({ Client, StreamableHTTPClientTransport, UnauthorizedError } = await load("@modelcontextprotocol/client"));
}

const url = new URL(process.env.MCP_URL);
let signIns = 0;
let callback;

class Provider {
  kept = {};
  redirectUrl = "http://localhost:33418/callback";
  clientMetadataUrl = mode ? process.env.DOCUMENT : undefined;
  clientMetadata = {
    client_name: `typescript ${which}`,
    redirect_uris: [this.redirectUrl],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
  state() { return "state-with/odd+characters="; }
  clientInformation() { return this.kept.client; }
  saveClientInformation(client) { this.kept.client = client; }
  tokens() { return this.kept.tokens; }
  saveTokens(tokens) { this.kept.tokens = tokens; }
  saveCodeVerifier(verifier) { this.kept.verifier = verifier; }
  codeVerifier() { return this.kept.verifier; }
  redirectToAuthorization(address) {
    signIns += 1;
    const told = execFileSync(process.env.PYTHON, [process.env.BROWSER_SCRIPT, "--stop", String(address)]);
    callback = new URL(String(told).trim());
  }
}

const provider = new Provider();
async function connect() {
  const client = new Client({ name: "drill", version: "1" }, options);
  let transport = new StreamableHTTPClientTransport(url, { authProvider: provider });
  try {
    await client.connect(transport);
    return client;
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    if (callback.searchParams.get("state") !== provider.state()) throw new Error("state came back changed");
    if (which === "sdk") await transport.finishAuth(callback.searchParams.get("code"));
    else await transport.finishAuth(callback.searchParams);
  }
  const again = new Client({ name: "drill", version: "1" }, options);
  transport = new StreamableHTTPClientTransport(url, { authProvider: provider });
  await again.connect(transport);
  return again;
}

function structured(result) {
  const found = result.structuredContent;
  if (JSON.stringify(JSON.parse(result.content[0].text)) !== JSON.stringify(found)) throw new Error("two answers");
  return found;
}

const told = {};
let client = await connect();
told.server = client.getServerVersion();
told.version = mode ? client.getNegotiatedProtocolVersion() : "2024-11-05";
if (mode) told.supported = (await client.discover()).supportedVersions;
else await client.ping();
told.tools = (await client.listTools()).tools.map((tool) => tool.name);
const call = async (name, args) => structured(await client.callTool({ name, arguments: args }));
told.results = (await call("ask_archive", { question: process.env.QUESTION })).results;
const pair = { product_id: told.results[0].product_id, offset: told.results[0].offset };
told.article = await call("get_archive_article", pair);
try {
  const refused = await client.callTool({ name: "get_archive_article", arguments: { ...pair, offset: pair.offset + 1 } });
  if (refused.isError) told.refused = refused.content[0].text;
} catch (error) {
  told.refused = error.message;
}
// The access token is refused: the refresh token gets another one, and nobody is asked to sign in.
const before = provider.kept.tokens;
provider.kept.tokens = { ...before, access_token: "gone" };
told.again = (await call("get_archive_article", pair)).url;
told.refreshed = provider.kept.tokens.refresh_token !== before.refresh_token;
told.sign_ins = signIns;
told.client_id = provider.kept.client.client_id;
await client.close();
console.log(JSON.stringify(told));
process.exit(0);
