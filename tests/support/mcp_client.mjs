// What the official TypeScript client sees of an episode's door, as one JSON object on stdout.
// node mcp_client.mjs URL TOKEN ERA ENDLESS_SQL; ERA is "legacy" or a protocol revision.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, token, era, endless] = process.argv.slice(2);
const mode = era === "legacy" ? "legacy" : { pin: era };
const client = new Client({ name: "conformance", version: "1" }, { versionNegotiation: { mode } });
await client.connect(
  new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { Authorization: `Bearer ${token}` } },
  }),
);
const call = (name, args, options) => client.callTool({ name, arguments: args }, options);
const seen = { protocol: client.getNegotiatedProtocolVersion() };
seen.tools = (await client.listTools()).tools;
seen.lent = await call("lend_book", { book_id: "B-1", reader_id: "R-1" });
seen.refused = await call("find_book", { book_id: "B-9" });
const stop = new AbortController();
setTimeout(() => stop.abort(), 500);
seen.cancelled = await call("write_sql", { query: endless }, { signal: stop.signal }).then(
  () => "answered",
  () => "cancelled",
);
const begin = Date.now();
seen.after = await call("find_book", { book_id: "B-1" });
seen.after_seconds = (Date.now() - begin) / 1000;
await client.close();
console.log(JSON.stringify(seen));
