// Every subject gets tool calls of the same length; only the id changes from call to call.
export const MODERN = '2026-07-28';
export const HANDSHAKE = '2025-11-25';

const FIRST_ID = 1_000_000; // always seven digits, so lengths never change
const clientInfo = { name: 'ambit-bench', version: '1.0.0' };
const modernMeta = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientInfo': clientInfo,
  'io.modelcontextprotocol/clientCapabilities': {},
};

// Sessions share their ids and differ in their text: an answer that reaches the wrong session is seen.
export function sessionText(session) {
  return `session ${String(session).padStart(2, '0')} `.padEnd(64, 'the quick brown fox ');
}

export function callId(count) {
  return FIRST_ID + (count % (9 * FIRST_ID));
}

export function callBody(era, session) {
  const params = { name: 'echo', arguments: { text: sessionText(session) } };
  const modern = JSON.stringify(request(FIRST_ID, 'tools/call', { ...params, _meta: modernMeta }));
  if (era === MODERN) return modern;
  const padded = (length) =>
    JSON.stringify(request(FIRST_ID, 'tools/call', { ...params, _meta: { 'bench/padding': 'x'.repeat(length) } }));
  return padded(modern.length - padded(0).length);
}

export const initializeBody = JSON.stringify(
  request(1, 'initialize', { protocolVersion: HANDSHAKE, capabilities: {}, clientInfo }),
);
export const initializedBody = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' });

// Bytes that can be sent again and again with another id written in place.
export function reusableCall(head, body) {
  const bytes = Buffer.from(head + body);
  const last = bytes.indexOf(`"id":${FIRST_ID}`) + `"id":${FIRST_ID}`.length - 1;
  return (id) => {
    for (let rest = id, at = last; rest > 0; rest = Math.floor(rest / 10)) bytes[at--] = 48 + (rest % 10);
    return bytes;
  };
}

// Ambit may put a context block before the tool's own text; the tool's own text is always last.
export function wrongAnswer(message, id, session) {
  const text = message?.result?.content?.at(-1)?.text;
  if (message?.id === id && text === sessionText(session) && !message.result.isError) return undefined;
  return new Error(`wrong answer to call ${id} of session ${session}: ${JSON.stringify(message)?.slice(0, 400)}`);
}

function request(id, method, params) {
  return { jsonrpc: '2.0', id, method, params };
}
