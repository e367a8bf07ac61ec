import { existsSync } from 'node:fs';
import { handleAdmin } from '../admin/handle.ts';
import { loadConfig } from '../config/load.ts';
import { AmbitError } from '../errors.ts';
import { openGateway } from '../gateway/gateway.ts';
import type { Invocation } from './command.ts';
import { logOf } from './log-flags.ts';
import { configOf, placesOf } from './places.ts';

interface Question {
  readonly method: string;
  readonly path: string;
  readonly body: string | undefined;
}

/** Answers as a running gateway would, from the store that it would use, and leaves nothing behind. */
export async function askStore(
  invocation: Invocation,
  { method, path, body }: Question,
): Promise<{ readonly status: number; readonly body: unknown }> {
  const places = placesOf(invocation);
  const config = existsSync(places.configFile)
    ? await configOf(places)
    : (await loadConfig({ text: '{"version":1}', file: '(none)' })).config;
  // What is opened in memory would be gone before anyone could use it.
  if (config.store.kind === 'memory') throw new AmbitError('GATEWAY_UNREACHABLE');
  const gateway = await openGateway({ config, ...places, log: logOf(invocation), brief: true });
  try {
    const given = body === undefined ? undefined : Buffer.from(body);
    const { status, body: answer } = await handleAdmin(gateway, { method, path, body: given });
    return { status, body: answer ?? {} };
  } finally {
    await gateway.close();
  }
}
