import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttp, type RequestListener } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { type AddressInfo, createServer as createTcp, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ambitInProcess } from '../../cli/in-process.ts';
import { callModern, openClient, readOutcome } from '../json-mcp-client.ts';
import { patience } from '../raw-mcp-client.ts';
import { type RunningAmbit, startAmbit } from '../start-ambit.ts';
import { type Certificate, createCertificate } from './create-certificate.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-reasons-'));
const servers = new Set<Server>();
const authority = createCertificate({ name: 'Our Authority', isAuthority: true });
const stranger = createCertificate({ name: 'Their Authority', isAuthority: true });
const issuedBy = (issuer: Certificate, more: object = {}) => createCertificate({ name: 'localhost', issuer, ...more });

/** A server of the handshake era with one tool. */
const speakMcp: RequestListener = (request, response) => {
  let body = '';
  request.on('data', (chunk: Buffer) => {
    body += chunk;
  });
  request.on('end', () => {
    const { id, method, params } = JSON.parse(body || '{}') as { id?: number; method?: string; params: object };
    if (id === undefined) return void response.writeHead(202).end();
    const { protocolVersion } = params as { protocolVersion?: string };
    const serverInfo = { name: 'x', version: '1' };
    const result = {
      initialize: { protocolVersion, capabilities: { tools: {} }, serverInfo },
      'tools/call': { content: [{ type: 'text', text: 'right' }] },
    }[method as 'initialize'];
    const error = { code: -32601, message: 'Method not found' };
    const answer = { jsonrpc: '2.0', id, ...(result === undefined ? { error } : { result }) };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
};

function answering(status: number, headers: Record<string, string> = { 'content-type': 'text/html' }): Server {
  return createHttp((request, response) => {
    request.resume();
    response.writeHead(status, headers).end('<h1>Hello</h1>');
  });
}

/** What is at the address of a server, how its url begins, and what a caller is told of it. */
const cases: Record<string, [Server | undefined, 'http' | 'https', RegExp]> = {
  trusted: [createHttps(issuedBy(authority), speakMcp), 'https', /^right$/],
  'self-signed': [
    createHttps(createCertificate({ name: 'localhost' }), speakMcp),
    'https',
    /its certificate is self-signed \(DEPTH_ZERO_SELF_SIGNED_CERT\)\. .*NODE_EXTRA_CA_CERTS/,
  ],
  'unknown-authority': [
    createHttps(issuedBy(stranger), speakMcp),
    'https',
    /unknown authority \(UNABLE_TO_VERIFY_LEAF_SIGNATURE\)\. .*NODE_EXTRA_CA_CERTS/,
  ],
  expired: [
    createHttps(issuedBy(authority, { days: [-3, -2] }), speakMcp),
    'https',
    /its certificate has expired \(CERT_HAS_EXPIRED\)/,
  ],
  'not-yet': [createHttps(issuedBy(authority, { days: [2, 3] }), speakMcp), 'https', /\(CERT_NOT_YET_VALID\)/],
  'wrong-host': [
    createHttps(createCertificate({ name: 'elsewhere.test', issuer: authority }), speakMcp),
    'https',
    /its certificate is for another host name \(ERR_TLS_CERT_ALTNAME_INVALID\)/,
  ],
  'needs-https': [createHttps(issuedBy(authority), speakMcp), 'http', /\(ECONNRESET\)\. .*write https:\/\/ instead/],
  'needs-http': [createHttp(speakMcp), 'https', /it does not speak TLS \(EPROTO\)\. .*write http:\/\/ instead/],
  'no-http': [createTcp((socket) => socket.end('SSH-2.0-x\r\n')), 'http', /is not HTTP \(HPE_INVALID_CONSTANT\)/],
  hangs: [createTcp((socket) => void socket.destroy()), 'http', /closed the connection without an answer \(ECONNRESET/],
  refused: [undefined, 'http', /nothing listens at its address \(ECONNREFUSED\)\. (?:The call was not sent\. )?Start/],
  page: [answering(200), 'http', /HTTP 200 instead of an MCP message: it sent a web page\./],
  'no-path': [answering(404), 'http', /HTTP 404 .*there is nothing at its path\. .*\/mcp/],
  'no-post': [answering(405), 'http', /HTTP 405 .*it does not accept POST at this path\. .*HTTP\+SSE/],
  forbids: [answering(403), 'http', /HTTP 403 .*it does not allow the request/],
  moved: [answering(308, { location: 'http://127.0.0.1/' }), 'http', /HTTP 308 .*it redirects to another address/],
  fails: [answering(502), 'http', /HTTP 502 .*failed/],
};

let ambit: RunningAmbit;
let words = '';
let token = '';
const ports = new Map<string, number>();
beforeAll(async () => {
  const configured: Record<string, { url: string }> = {};
  for (const [name, [server, scheme]] of Object.entries(cases)) {
    if (server === undefined) {
      configured[name] = { url: `${scheme}://localhost:1/mcp?key=planted-secret` };
      continue;
    }
    servers.add(server.listen(0, '127.0.0.1'));
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as AddressInfo;
    ports.set(name, port);
    // Only certificates care for the name; other tests must not depend on how it is looked up.
    configured[name] = {
      url: `${scheme}://${scheme === 'https' ? 'localhost' : '127.0.0.1'}:${port}/mcp?key=planted-secret`,
    };
  }
  // A label this long is no name: no name server is asked for it.
  configured['unknown'] = { url: `http://${'x'.repeat(64)}.invalid/mcp` };
  const file = join(folder, 'authority.pem');
  writeFileSync(file, authority.cert);
  ambit = await startAmbit({ servers: configured }, { NODE_EXTRA_CA_CERTS: file });
  ambit.process.stderr?.on('data', (chunk: Buffer) => {
    words += chunk.toString();
  });
  token = (await ambit.session()).token;
});
afterAll(async () => {
  await ambit?.stop();
  for (const server of servers) server.close();
  rmSync(folder, { recursive: true, force: true });
});

test.each([
  ...Object.entries(cases),
  ['unknown', [undefined, 'http', /its host name cannot be resolved \(ENOTFOUND\)/]] as const,
])('the reason why a server over HTTP is not reached: %s', async (name, [, , told]) => {
  const answer = await callModern(ambit.mcp(name), token, 'mark');
  const text = answer.messages.at(-1)?.result?.content?.[0]?.text ?? '';
  expect(text).toMatch(told);
  if (readOutcome(answer) === 'right') return;
  expect(readOutcome(answer)).toBe('!UPSTREAM_FAILED');
  await expect(openClient(ambit.mcp(name), token)).rejects.toThrow(told);
  // Callers learn no address; the operator does, but no query.
  expect(text).not.toMatch(/localhost|127\.0\.0\.1|planted-secret|:\d{2,5}\b/);
  const start = `ambit: server not reached: server=${name} `;
  const findLine = () => words.split('\n').find((each) => each.startsWith(start));
  const line = await vi.waitUntil(findLine, patience);
  expect(line).toMatch(/ host=\S+ error="The server/);
});

test('the log has the host once a minute, and never the query', () => {
  expect(words).toContain(`host=localhost:${ports.get('expired')} error=`);
  expect(words.match(/server not reached: server=expired /g)).toHaveLength(1);
  expect(words).not.toContain('planted-secret');
});

test('ambit server check says the same, with the address', async () => {
  const file = join(folder, 'ambit.json');
  const url = `http://127.0.0.1:${ports.get('no-path')}/mcp?key=planted-secret`;
  writeFileSync(file, JSON.stringify({ version: 1, servers: { x: { url } } }));
  const args = ['server', 'check', 'x', '--json', '--config', file, '--data-dir', join(folder, 'data')];
  const { code, stdout, stderr } = await ambitInProcess(args);
  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({
    name: 'x',
    transport: 'http',
    error: { code: 'UPSTREAM_FAILED' },
    stderr: [],
  });
  expect(stderr).toMatch(/HTTP 404 .*there is nothing at its path\./);
  expect(stderr).toContain(`Host: 127.0.0.1:${ports.get('no-path')}\n`);
  expect(stderr).not.toContain('planted-secret');
});
