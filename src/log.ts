import { escapeControls } from './escape-controls.ts';

/** Words for whoever runs Ambit: one line each, to stderr; stdout belongs to data. */
export interface Log {
  info(line: string): void;
  warn(line: string): void;
}

export function stderrLog(): Log {
  const say = (line: string) => process.stderr.write(`ambit: ${escapeControls(line)}\n`);
  return { info: say, warn: say };
}
