// An MCP server of the modern era whose tools take one thing after another until somebody stops them.
import { spawn } from 'node:child_process';
import { openSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';

const kept = [];
const megabyte = Buffer.alloc(1 << 20, 1);
const forever = (take) => setInterval(take, 1);

const tools = {
  /** So much, and no more. */
  hold: ({ mb }) => kept.push(Buffer.alloc(mb << 20, 1)),
  eat: () => setInterval(() => kept.push(Buffer.alloc(32 << 20, 1)), 20),
  fork: () => forever(() => spawn('/bin/sleep', ['60'], { stdio: 'ignore' }).on('error', () => {})),
  /** Whatever was refused, it goes on with the next file. */
  fill() {
    let files = 0;
    let file = openSync('/tmp/fill-0', 'w');
    forever(() => {
      try {
        writeSync(file, megabyte);
      } catch {
        try {
          file = openSync(`/tmp/fill-${++files % 100}`, 'w');
        } catch {}
      }
    });
  },
  spin() {
    for (;;);
  },
  flood() {
    const line = `${'x'.repeat(4000)}\n`;
    const more = (stream) => {
      while (stream.write(line));
      stream.once('drain', () => more(stream));
    };
    more(process.stderr);
    more(process.stdout);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method === 'server/discover') {
    const result = {
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
      serverInfo: { name: 'greedy', version: '1' },
      ttlMs: 0,
      cacheScope: 'private',
    };
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`);
  } else if (method === 'tools/call') tools[params.name]?.(params.arguments);
}
