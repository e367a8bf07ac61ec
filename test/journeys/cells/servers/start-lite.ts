import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export async function startLite(): Promise<{ url: string; stop(): Promise<void> }> {
  // The channel is never written to: the server ends when it closes, even if this process is killed.
  const child = spawn(process.execPath, [join(import.meta.dirname, 'lite.js')], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const exited = once(child, 'exit');
  const [line] = await Promise.race([
    once(createInterface({ input: child.stdout! }), 'line'),
    exited.then(() => Promise.reject(new Error('the mcp-lite server did not start'))),
  ]);
  return {
    ...(JSON.parse(line as string) as { url: string }),
    async stop() {
      child.kill();
      await exited;
    },
  };
}
