import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { removeContainer } from './container-notes.ts';
import { type Engine, runEngine } from './engine.ts';

/** The labels of a container, for people who use the engine themselves. */
export function containerLabels(tmpRoot: string, session: string | undefined): string[] {
  return [
    `ambit.instance=${basename(tmpRoot)}`,
    `ambit.home=${hashDataDirectory(tmpRoot)}`,
    ...(session === undefined ? [] : [`ambit.session=${session}`]),
  ];
}

/** A hash that instances with the same data directory share. */
function hashDataDirectory(tmpRoot: string): string {
  return createHash('sha256').update(dirname(tmpRoot)).digest('hex').slice(0, 16);
}

/** The name of a container. It shows the instance, and no other container has such a name. */
export function containerNameFor(tmpRoot: string, tmpDir: string): string {
  return `ambit-${basename(tmpRoot).replace(/^instance-/, '')}-${basename(tmpDir)}`;
}

/** Removes containers of instances whose folder is gone, with every note about them. Returns their number. */
export async function removeLeftoverContainers(engine: Engine, tmpRoot: string): Promise<number> {
  const filter = `label=ambit.home=${hashDataDirectory(tmpRoot)}`;
  const { stdout } = await runEngine(engine, ['ps', '--all', '--filter', filter, '--format', '{{.Names}}']);
  const left = stdout.split('\n').filter((name) => {
    const instance = /^ambit-([A-Za-z0-9]+)-/.exec(name)?.[1];
    return instance !== undefined && !existsSync(join(dirname(tmpRoot), `instance-${instance}`));
  });
  const gone = await Promise.all(left.map((name) => removeContainer(engine, name)));
  return gone.filter((each) => each).length;
}
