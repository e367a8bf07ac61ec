import { execFile } from 'node:child_process';
import { compileCache, inspectorCli, newerNode } from '../../tools/newer-node.ts';
import type { Script } from './checks/upstream-scripts.ts';
import type { Target } from './connect/mcp-client.ts';

export type InspectorEra = 'legacy' | 'modern' | 'auto';

/** The output of the Inspector: `{"result":…}` on stdout, or `{"error":…}` on stderr. */
export interface InspectorOutput {
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

/** Runs the Inspector's CLI once; `home` keeps it away from the user's own settings. */
export function runInspector(
  home: string,
  era: InspectorEra,
  target: Target,
  method: readonly string[],
): Promise<InspectorOutput> {
  const header = target.kind === 'http' && target.token !== undefined ? ['--header', bearer(target.token)] : [];
  const [before, after] =
    target.kind === 'http'
      ? [[target.url, '--transport', 'http', ...header], []]
      : [[], ['--', process.execPath, ...target.args]];
  const asking = ['--format', 'json', '-q', '--protocol-era', era, '--method', ...method];
  const args = [inspectorCli(), '--cli', ...before, ...asking, ...after];
  return new Promise((resolve, reject) => {
    const env = { ...process.env, HOME: home, NODE_COMPILE_CACHE: compileCache };
    execFile(newerNode(), args, { env }, (error, stdout, stderr) => {
      const line = (stdout.trim() || stderr.trim()).split('\n')[0] ?? '';
      try {
        resolve(JSON.parse(line) as InspectorOutput);
      } catch {
        reject(error ?? new Error(`the Inspector printed: ${stdout}${stderr}`));
      }
    });
  });
}

function bearer(token: string): string {
  return `Authorization: Bearer ${token}`;
}

export const inspectorFeatures = ['list tools', 'call a tool', 'resources', 'prompts', 'logging'] as const;
export type InspectorFeature = (typeof inspectorFeatures)[number];

/** How each feature is asked of the CLI, and what must be in the answer. */
export function toArguments(feature: InspectorFeature, script: Script): { args: string[]; says: string } {
  const { call } = script;
  const resource = typeof script.resources === 'string' ? undefined : script.resources;
  const prompt = typeof script.prompts === 'string' ? undefined : script.prompts;
  switch (feature) {
    case 'list tools':
      return { args: ['tools/list'], says: script.tools[0]! };
    case 'call a tool':
      return {
        args: ['tools/call', '--tool-name', call.tool, '--tool-args-json', JSON.stringify(call.args ?? {})],
        says: call.says,
      };
    case 'resources':
      return { args: ['resources/read', '--uri', resource?.uri ?? 'test://none'], says: resource?.says ?? '' };
    case 'prompts': {
      const pairs = Object.entries(prompt?.args ?? {}).map(([key, value]) => `${key}=${value}`);
      const given = pairs.length === 0 ? [] : ['--prompt-args', ...pairs];
      return { args: ['prompts/get', '--prompt-name', prompt?.name ?? 'none', ...given], says: prompt?.says ?? '' };
    }
    case 'logging':
      return { args: ['logging/setLevel', '--log-level', 'debug'], says: '{}' };
  }
}
