import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { removeContainer } from './container-list.ts';
import { type Engine, order } from './engine.ts';

/** What a container is known by to those who look at the engine. */
export function labelsOf(tmpRoot: string, session: string | undefined): string[] {
  return [
    `ambit.instance=${basename(tmpRoot)}`,
    `ambit.home=${homeOf(tmpRoot)}`,
    ...(session === undefined ? [] : [`ambit.session=${session}`]),
  ];
}

/** Instances with the same data directory have this in common. */
function homeOf(tmpRoot: string): string {
  return createHash('sha256').update(dirname(tmpRoot)).digest('hex').slice(0, 16);
}

/** Removes containers of instances whose folder is gone, and with it every note about them. Says how many. */
export async function removeLeftContainers(engine: Engine, tmpRoot: string): Promise<number> {
  const format = '{{.Names}} {{.Label "ambit.instance"}}';
  const filter = `label=ambit.home=${homeOf(tmpRoot)}`;
  const { stdout } = await order(engine, ['ps', '--all', '--filter', filter, '--format', format]);
  const left = stdout
    .split('\n')
    .map((line) => line.trim().split(' '))
    .filter(([name, instance]) => name && instance && !existsSync(join(dirname(tmpRoot), basename(instance))))
    .map(([name]) => name as string);
  const gone = await Promise.all(left.map((name) => removeContainer(engine, name)));
  return gone.filter((each) => each).length;
}
