import type { Confinement } from '../common/confinement.ts';
import { wayOutInside } from '../egress/inside.ts';
import type { Launch } from '../runner.ts';
import { runtimeFiles, type ServerFiles } from './server-files.ts';

/**
 * Beside the server there is then what leads to its proxy, started by the Node that Ambit itself runs on, or, in an image,
 * by the Node of that image: programs of this machine need not run there.
 */
export function withWayOut(
  launch: Launch,
  confinement: Confinement,
  files: ServerFiles,
): [Launch, Confinement, ServerFiles & { readonly before?: readonly string[] }] {
  if (launch.wayOut === undefined) return [launch, confinement, files];
  const inImage = confinement.image !== undefined;
  const runtime = inImage ? { shown: [], links: [] } : runtimeFiles(process.execPath, confinement.hidden);
  const { before, shown, env } = wayOutInside(launch.wayOut, inImage ? 'node' : process.execPath);
  return [
    { ...launch, env: { ...env, ...launch.env } },
    confinement,
    {
      ...files,
      before,
      shown: [...files.shown, ...runtime.shown, ...shown],
      links: [...files.links, ...runtime.links],
    },
  ];
}
