// One session over one keep-alive socket, one call outstanding: a bare client, so that the subject is what is measured.
import { once } from 'node:events';
import { connect } from 'node:net';
import { readAnswer, readResponse } from './http-response.js';
import { callBody, HANDSHAKE, initializeBody, initializedBody, MODERN, reusableCall, wrongAnswer } from './messages.js';

const NOTHING = Buffer.alloc(0);

export async function openHttpLane({ url, era, session, token }) {
  const { hostname, port, pathname, host } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  await once(socket, 'connect');

  let received = NOTHING;
  let settle;
  socket.on('data', (chunk) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    const response = readResponse(received);
    if (response === undefined) return;
    received = NOTHING;
    finish(undefined, response);
  });
  socket.on('error', (error) => finish(error));
  socket.on('close', () => finish(new Error(`${host} closed the connection of session ${session}`)));

  function finish(error, response) {
    const waiting = settle;
    settle = undefined;
    waiting?.(error, response);
  }

  function head(length, extra) {
    const lines = [`POST ${pathname} HTTP/1.1`, `Host: ${host}`, `Authorization: Bearer ${token}`];
    lines.push('Content-Type: application/json', 'Accept: application/json, text/event-stream', ...extra);
    return `${lines.join('\r\n')}\r\nContent-Length: ${length}\r\n\r\n`;
  }

  function post(body, extra) {
    return new Promise((resolve, reject) => {
      settle = (error, response) => (error ? reject(error) : resolve(response));
      socket.write(head(Buffer.byteLength(body), extra) + body);
    });
  }

  async function handshake() {
    const opened = await post(initializeBody, []);
    const version = readAnswer(opened)?.result?.protocolVersion;
    const sessionId = /\r\nmcp-session-id: *([^\r]+)/i.exec(opened.head)?.[1];
    if (version === undefined) throw new Error(`initialize: ${opened.status} ${opened.body.slice(0, 400)}`);
    const headers = [`MCP-Protocol-Version: ${version}`, ...(sessionId ? [`Mcp-Session-Id: ${sessionId}`] : [])];
    const { status, body } = await post(initializedBody, headers);
    if (status !== 202) throw new Error(`notifications/initialized: ${status} ${body.slice(0, 400)}`);
    return headers;
  }

  const modernHeaders = [`MCP-Protocol-Version: ${MODERN}`, 'Mcp-Method: tools/call', 'Mcp-Name: echo'];
  const headers = era === HANDSHAKE ? await handshake() : modernHeaders;
  const body = callBody(era, session);
  const bytesFor = reusableCall(head(Buffer.byteLength(body), headers), body);

  return {
    call(id, done) {
      settle = (error, response) => done(error ?? check(response, id));
      socket.write(bytesFor(id));
    },
    close: () => socket.destroy(),
  };

  function check(response, id) {
    if (response.status !== 200) return new Error(`call ${id}: ${response.status} ${response.body.slice(0, 400)}`);
    return wrongAnswer(readAnswer(response), id, session);
  }
}
