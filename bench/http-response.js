// The least of an HTTP/1.1 response that a load generator has to understand.

// Returns undefined while the response is incomplete.
export function readResponse(bytes) {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const head = bytes.latin1Slice(0, headEnd);
  const bodyStart = headEnd + 4;
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  const body =
    length === undefined && /\r\ntransfer-encoding: *chunked/i.test(head)
      ? readChunks(bytes, bodyStart)
      : readPlain(bytes, bodyStart, Number(length ?? 0));
  return body === undefined ? undefined : { status: Number(head.slice(9, 12)), head, body };
}

// The JSON-RPC answer in a JSON or an event-stream body; notifications and priming events are passed over.
export function readAnswer({ head, body }) {
  if (!/\r\ncontent-type: *text\/event-stream/i.test(head)) return body === '' ? undefined : JSON.parse(body);
  for (const line of body.split('\n')) {
    if (!line.startsWith('data:') || line.length < 8) continue;
    const message = JSON.parse(line.slice(5));
    if (message.id !== undefined && message.method === undefined) return message;
  }
  return undefined;
}

function readPlain(bytes, start, length) {
  return bytes.length < start + length ? undefined : bytes.utf8Slice(start, start + length);
}

function readChunks(bytes, start) {
  let body = '';
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd === -1) return undefined;
    const size = Number.parseInt(bytes.latin1Slice(at, lineEnd), 16);
    const dataEnd = lineEnd + 2 + size;
    if (bytes.length < dataEnd + 2) return undefined;
    if (size === 0) return body;
    body += bytes.utf8Slice(lineEnd + 2, dataEnd);
    at = dataEnd + 2;
  }
}
