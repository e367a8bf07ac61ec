// The floor: what any HTTP-to-stdio relay has to do, and nothing else. `node floor.js SESSIONS SERVER`
// starts one process per session; the bearers s1, s2, … choose among them; ids are mapped both ways.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';

const [sessions, server] = process.argv.slice(2);
const upstreams = new Map();
for (let n = 1; n <= Number(sessions); n++) upstreams.set(`Bearer s${n}`, startUpstream());

function startUpstream() {
  const { stdin, stdout } = spawn(process.execPath, [server], { stdio: ['pipe', 'pipe', 'inherit'] });
  const waiting = new Map();
  let rest = '';
  stdout.setEncoding('utf8').on('data', (chunk) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      const message = JSON.parse(line);
      const { id, response } = waiting.get(message.id);
      waiting.delete(message.id);
      message.id = id;
      const body = JSON.stringify(message);
      const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
      response.writeHead(200, headers).end(body);
    }
  });
  return { stdin, waiting, lastId: 0 };
}

const http = createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8').on('data', (chunk) => (body += chunk));
  request.on('end', () => {
    const upstream = upstreams.get(request.headers.authorization);
    const message = JSON.parse(body);
    upstream.waiting.set(++upstream.lastId, { id: message.id, response });
    message.id = upstream.lastId;
    upstream.stdin.write(`${JSON.stringify(message)}\n`);
  });
});
http.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ url: `http://127.0.0.1:${http.address().port}` })));
