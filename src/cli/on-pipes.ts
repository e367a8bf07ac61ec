import type { Config } from '../config/schema.ts';
import { serveStdio } from '../entrances/stdio/serve-stdio.ts';
import { openGateway } from '../gateway/gateway.ts';
import { stderrLog } from '../log.ts';
import { type Flag, type Invocation, text } from './command.ts';
import type { Places } from './places.ts';
import { trustOf } from './trust-flag.ts';

export const sessionFlags: Readonly<Record<string, Flag>> = {
  workspace: { type: 'string', value: 'W', help: 'where it works' },
  trust: { type: 'string', value: 'T', help: 'direct or sandboxed' },
};

/** One session for whoever started us, on stdin and stdout, until they leave or ask us to end. */
export async function serveOnPipes(
  invocation: Invocation,
  places: Places,
  config: Config,
  server: string,
): Promise<number> {
  const trustLevel = trustOf(invocation);
  const workspaceId = text(invocation, 'workspace');
  // From here on there is something to clear up: a signal must not find us without a handler.
  const told = signalled();
  const gateway = await openGateway({ ...places, config, log: stderrLog() });
  try {
    const { session } = gateway.openSession({
      ...(workspaceId === undefined ? {} : { workspaceId }),
      ...(trustLevel === undefined ? {} : { trustLevel }),
    });
    const { stdin: input, stdout: output } = process;
    await Promise.race([serveStdio({ gateway, server, sessionId: session.id, input, output }), told]);
    return 0;
  } finally {
    await gateway.close();
    process.stdin.destroy();
  }
}

function signalled(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => resolve());
  });
}
