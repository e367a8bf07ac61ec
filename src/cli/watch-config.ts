import { watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import { loadConfig } from '../config/load.ts';
import type { Gateway } from '../gateway/gateway.ts';
import type { Log } from '../log.ts';

const settleMs = 100;

/** Reloads when the configuration changes, or on SIGHUP. A broken one is refused and the gateway goes on as it was. */
export function watchConfig(file: string, gateway: Gateway, log: Log): { close(): void } {
  let timer: NodeJS.Timeout | undefined;
  let reloading = Promise.resolve();

  async function reload(): Promise<void> {
    try {
      const { config, warnings } = await loadConfig({ file });
      const changed = gateway.reload(config);
      for (const warning of warnings) log.warn(warning);
      log.info(changed.length === 0 ? 'configuration read again' : `configuration read again: ${changed.join(', ')}`);
    } catch (error) {
      log.warn(`the configuration was not taken over: ${(error as Error).message}`);
    }
  }

  function soon(): void {
    clearTimeout(timer);
    timer = setTimeout(() => {
      reloading = reloading.then(reload);
    }, settleMs);
  }

  // The folder is watched: editors put a new file in the old one's place.
  const watcher = watch(dirname(file), (_event, name) => {
    if (name === null || name === basename(file)) soon();
  });
  watcher.on('error', () => {});
  process.on('SIGHUP', soon);
  return {
    close() {
      clearTimeout(timer);
      watcher.close();
      process.off('SIGHUP', soon);
    },
  };
}
