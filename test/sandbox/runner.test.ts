import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Journal } from '../../src/observability/journal/journal.ts';
import type { Runner } from '../../src/sandbox/runner.ts';
import { createRunners } from '../../src/sandbox/runners.ts';
import type { StdioServer } from '../../src/upstreams/definition.ts';
import { noProcessWatch, startServer } from '../../src/upstreams/links/stdio/server-process.ts';
import { createHarness } from './runner-harness.ts';

const script = join(import.meta.dirname, '../fixtures/eras/foreign-eras.js');
const bridge = `const s = require('net').connect(process.argv[1]);
const c = require('child_process').spawn(process.execPath, process.argv.slice(2), { stdio: ['pipe', 'pipe', 'inherit'] });
s.pipe(c.stdin); c.stdout.pipe(s); c.on('exit', () => process.exit());`;

test('a server answers over a Unix socket, through a runner with a channel of its own', async () => {
  const harness = await createHarness();
  onTestFinished(harness.stop);
  const { reaper, root: tmpRoot, tmpParent } = harness;
  const runners = createRunners({ reaper, tmpRoot, packages: join(tmpParent, 'packages') });
  const openChannel: Runner['openChannel'] = async (launch) => {
    const path = join(tmpParent, 'mcp.sock');
    const listening = createServer().listen(path);
    await once(listening, 'listening');
    const child = spawn(process.execPath, ['-e', bridge, path, ...launch.args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const exited = once(child, 'exit').then(([code, signal]) => ({ code, signal }));
    const [socket] = (await once(listening, 'connection')) as [Socket];
    listening.close();
    return {
      pid: child.pid,
      write: (bytes) => void socket.write(bytes),
      backlog: () => socket.writableLength,
      output: socket,
      diagnostics: child.stderr,
      exited,
      end() {
        socket.end();
        child.kill();
        return exited;
      },
    };
  };
  const server = { name: 'x', command: 'x', args: [script, 'go-sdk', join(tmpParent, 'starts')], sandbox: {} };
  let heard: (line: string) => void = () => {};
  const answer = new Promise<string>((resolve) => {
    heard = resolve;
  });
  const process_ = await startServer(
    server as unknown as StdioServer,
    {
      runners: { ...runners, plain: { ...runners.plain, openChannel } },
      tmpRoot,
      prepare: () => ({ env: {}, cwd: tmpParent, confinement: undefined }),
      journal: { record() {} } as unknown as Journal,
      sessionId: 'x',
      messageBytes: 10_000,
      mayStart() {},
      mayServe() {},
      watch: noProcessWatch,
      owner: 'x',
      takeSlot: async () => ({ markStarted() {}, release() {}, markLeaving() {} }),
    },
    {
      onLine(line) {
        heard(line.toString());
        return true;
      },
      onTooLong() {},
      onSilence() {},
      onExit() {},
      stoppable: { idleSince: () => undefined, hasClients: () => false, end() {} },
      abandoned: new Promise<never>(() => {}),
    },
  );
  process_.write(
    Buffer.from('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}\n'),
  );
  expect(JSON.parse(await answer)).toMatchObject({ id: 1, result: { serverInfo: { name: 'go-sdk' } } });
  await process_.end();
});
