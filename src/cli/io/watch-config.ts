import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import { loadConfig } from '../../config/load/load.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import type { Log } from '../../observability/log/log.ts';

const settleMs = 100;

/** Reloads when the configuration changes, or on SIGHUP. A broken one is refused and the gateway goes on as it was. */
export function watchConfig(file: string, gateway: Gateway, log: Log): { close(): void } {
  let timer: NodeJS.Timeout | undefined;
  let reloading = Promise.resolve();

  async function reload(): Promise<void> {
    try {
      const { config, warnings } = await loadConfig({ file });
      const changed = gateway.reload(config);
      watchAll();
      for (const warning of warnings) log.warn('configuration', { warning });
      log.info('configuration read again', { changed: changed.length === 0 ? undefined : changed.join(', ') });
    } catch (error) {
      log.warn('the configuration was not taken over', { error: (error as Error).message });
    }
  }

  function soon(): void {
    clearTimeout(timer);
    timer = setTimeout(() => {
      reloading = reloading.then(reload);
    }, settleMs);
  }

  /** Folders are watched, not files: editors put a new file in the old one's place. */
  const watchers = new Map<string, FSWatcher>();
  function watchAll(): void {
    const files = [file, ...gateway.config.include];
    for (const folder of new Set(files.map((each) => dirname(each)))) {
      if (watchers.has(folder)) continue;
      try {
        const names = () =>
          [file, ...gateway.config.include].filter((each) => dirname(each) === folder).map((each) => basename(each));
        const watcher = watch(folder, (_event, name) => {
          if (name === null || names().includes(name)) soon();
        });
        watcher.on('error', () => {});
        watchers.set(folder, watcher);
      } catch {
        // A folder that is not there yet is looked for again at the next reload.
      }
    }
  }
  watchAll();
  process.on('SIGHUP', soon);
  return {
    close() {
      clearTimeout(timer);
      for (const watcher of watchers.values()) watcher.close();
      process.off('SIGHUP', soon);
    },
  };
}
