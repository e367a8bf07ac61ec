import { readFileSync } from 'node:fs';
import { manifest } from '../../package-paths.ts';

export const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string };
