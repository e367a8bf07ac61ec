// What is measured. `open({ sessions, pinned })` starts it and returns where the load goes and how to end it.
import { fileURLToPath } from 'node:url';
import { startAmbit } from './ambit.js';
import { HANDSHAKE, MODERN } from './messages.js';
import { peerLabel, peerScript } from './peers.js';
import { firstLine, freePort, listening, start, stop } from './processes.js';

const server = fileURLToPath(new URL('trivial-server.js', import.meta.url));
const floor = fileURLToPath(new URL('floor.js', import.meta.url));

// Signed context and rules. Quota and journal are always on.
const everything = { context: 'full', rules: true };

export const subjects = [
  {
    name: 'direct',
    label: 'direct stdio',
    note: 'the limit: the load generator writes to the servers itself',
    open: async () => ({ target: { server, era: MODERN }, close: async () => {} }),
  },
  {
    name: 'floor',
    label: 'floor',
    note: `${MODERN} to bench/floor.js, a bare relay; a process per session`,
    open: openFloor,
  },
  {
    name: 'ambit',
    label: 'Ambit',
    note: `${MODERN}, stateless requests; a process per session; signed context, rules, quota and journal`,
    open: (wish) => openAmbit(wish, MODERN, everything),
  },
  {
    name: 'ambit-handshake',
    label: 'Ambit, handshake',
    note: `the same in ${HANDSHAKE}, initialize and Mcp-Session-Id`,
    open: (wish) => openAmbit(wish, HANDSHAKE, everything),
  },
  {
    name: 'ambit-untold',
    label: 'Ambit, untold',
    note: `${MODERN} to a server that is told nothing (context: none)`,
    open: (wish) => openAmbit(wish, MODERN, { context: 'none' }),
  },
  {
    name: 'ambit-handshake-untold',
    label: 'handshake, untold',
    note: `the same in ${HANDSHAKE}`,
    open: (wish) => openAmbit(wish, HANDSHAKE, { context: 'none' }),
  },
  {
    name: 'mcp-proxy',
    label: peerLabel('mcp-proxy'),
    note: `${HANDSHAKE}, --server stream --no-eventStore; it can only share one process`,
    peer: true,
    open: (wish) => openPeer(wish, 'mcp-proxy', mcpProxyArgs),
  },
  {
    name: 'supergateway',
    label: peerLabel('supergateway'),
    note: `${HANDSHAKE}, --stateful, streamableHttp, --logLevel none; a process per session`,
    peer: true,
    open: (wish) => openPeer(wish, 'supergateway', supergatewayArgs),
  },
];

export async function openFloor({ sessions, pinned }) {
  const relay = start(process.execPath, [floor, String(sessions), server], { pinned });
  const { url } = JSON.parse(await firstLine(relay));
  const tokens = Array.from({ length: sessions }, (_, index) => `s${index + 1}`);
  return { target: { url: `${url}/mcp`, tokens, era: MODERN }, pid: relay.child.pid, close: () => stop(relay) };
}

export async function openAmbit(wish, era, { context, rules }) {
  const { url, tokens, pid, close } = await startAmbit({ server, ...wish, context, rules });
  return { target: { url, tokens, era }, pid, close };
}

async function openPeer({ pinned }, name, args) {
  const port = await freePort();
  const gateway = start(process.execPath, [peerScript(name), ...args(String(port))], { pinned });
  await listening(gateway, port);
  return { target: { url: `http://127.0.0.1:${port}/mcp`, era: HANDSHAKE }, close: () => stop(gateway) };
}

// Both peers run in the fastest mode they document for request and response. mcp-proxy has no process per session:
// it joins every client onto one upstream connection.
function mcpProxyArgs(port) {
  return ['--host', '127.0.0.1', '--port', port, '--server', 'stream', '--no-eventStore', '--', 'node', server];
}

function supergatewayArgs(port) {
  const mode = ['--outputTransport', 'streamableHttp', '--stateful', '--logLevel', 'none'];
  return ['--stdio', `node ${JSON.stringify(server)}`, '--port', port, ...mode];
}
