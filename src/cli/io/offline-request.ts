import { existsSync } from 'node:fs';
import type { ControlRequest } from '../../entrances/control/handle-request.ts';
import { AmbitError } from '../../errors.ts';
import { storeKinds } from '../../stores/store-kinds.ts';
import type { Invocation } from '../command.ts';
import { loadConfiguration } from './config-paths.ts';
import { announceStore, type GatewayTarget } from './find-gateway.ts';
import { createLog } from './log-flags.ts';

/** Answers a request as a running gateway would, from the store that it would use. */
export async function offlineRequest(
  invocation: Invocation,
  target: GatewayTarget,
  request: ControlRequest,
): Promise<{ readonly status: number; readonly body: unknown }> {
  // This process checks few values and exits: generating code for schemas would take longer than it saves.
  (await import('zod')).config({ jitless: true });
  const [{ loadConfig }, { handleControlRequest }, { localCaller }, { openOperator }] = await Promise.all([
    import('../../config/load/load.ts'),
    import('../../entrances/control/handle-request.ts'),
    import('../../entrances/control/route.ts'),
    import('../../gateway/assembly/open-operator.ts'),
  ]);
  const { configFile, dataDir } = target;
  const config = existsSync(configFile)
    ? await loadConfiguration(target)
    : (await loadConfig({ text: '{"version":1}', file: '(none)' })).config;
  // A session opened in memory would be gone before anyone could use it.
  if (!storeKinds[config.store.kind].isDurable) {
    const what = `No gateway is running for ${configFile}, and its store exists only in the memory of a gateway.`;
    throw new AmbitError('GATEWAY_UNREACHABLE', { what });
  }
  const operator = await openOperator({ config, configFile, dataDir, log: createLog(invocation) });
  announceStore(invocation, target);
  try {
    const { status, body = {} } = await handleControlRequest(operator, request, localCaller);
    return { status, body };
  } finally {
    await operator.close();
  }
}
