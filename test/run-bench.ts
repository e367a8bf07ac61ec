import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { repository } from './structure/source-files.ts';

/** Runs a function of the bench in a process of its own, which nothing else slows down, and returns its figures. */
export async function runBench<Figures>(file: string, measure: string): Promise<Figures> {
  const url = pathToFileURL(join(repository, 'bench', file)).href;
  const script = `import { ${measure} } from '${url}'; console.log(JSON.stringify(await ${measure}()));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script, 'bench']);
  return JSON.parse(stdout) as Figures;
}
