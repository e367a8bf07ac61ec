import type { Engine } from './engine.ts';

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Who a container's program is, so that it owns in the workspace what Ambit owns. For a podman of an ordinary account
 * the one called root inside is this account, and has no other rights.
 */
export function accountInside(engine: Engine): Account {
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  return engine.kind === 'podman' && uid !== 0 ? { uid: 0, gid: 0 } : { uid, gid };
}
