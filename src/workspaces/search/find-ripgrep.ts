import { lookUpTool } from '../../sandbox/common/find-program.ts';

/**
 * The program that comes with the package of that name, which is the version that is tested; else the one on PATH. The
 * package is optional: not every platform has one.
 */
export async function findRipgrep(searchPath: string | undefined): Promise<string | undefined> {
  try {
    const { rgPath } = await import('@vscode/ripgrep');
    return rgPath;
  } catch {
    return lookUpTool('rg', searchPath);
  }
}
