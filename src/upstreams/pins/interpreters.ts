import { basename } from 'node:path';

/** A language whose programs find a script under more names than the one that is written. */
export type Language =
  | 'javascript'
  | 'typescript'
  | 'python'
  | 'ruby'
  | 'perl'
  | 'lua'
  | 'java'
  | 'php'
  | 'shell'
  | 'tasks';

const programs: readonly (readonly [Language, RegExp])[] = [
  ['javascript', /^(?:node|nodejs|npm|pnpm|yarn)$/],
  ['typescript', /^(?:bun|deno|tsx|ts-node(?:-\w+)?|jiti|esno|vite-node|nodemon)$/],
  ['python', /^(?:python|pythonw|pypy|uv|poetry|pdm|hatch|pipenv|ipython|mcp|fastmcp)$/],
  ['ruby', /^(?:ruby|jruby|truffleruby)$/],
  ['perl', /^perl$/],
  ['lua', /^(?:lua|luajit)$/],
  ['java', /^java$/],
  ['php', /^php$/],
  ['shell', /^(?:sh|bash|dash|zsh|ksh|mksh|fish|ash|csh|tcsh|busybox|pwsh|powershell|nu|xonsh)$/],
  ['tasks', /^(?:make|gmake|just|task|rake)$/],
];

/** Programs that start the one that their arguments name. */
const starters =
  /^(?:env|nice|ionice|nohup|timeout|setsid|stdbuf|xargs|sudo|doas|su|exec|time|chroot|unshare|flock|script)$/;

/** Options after which comes code, by language. */
const codeOptions: Readonly<Partial<Record<Language, RegExp>>> = {
  javascript: /^(?:-[a-z]*[ep]|--eval|--print|eval)$/,
  typescript: /^(?:-[a-z]*[ep]|--eval|--print|eval)$/,
  python: /^-[a-zA-Z]*c$/,
  ruby: /^-[a-z]*e$/,
  perl: /^-[a-zA-Z]*[eE]$/,
  lua: /^-e$/,
  php: /^(?:-r|--run)$/,
  shell: /^(?:[-+][a-zA-Z]*c|-[cC]ommand|--command|-[eE]ncoded[cC]ommand)$/,
};
/** The same with the code in the option itself. */
const codeWithin = /^--(?:eval|print|command)=|^(?:--[a-z-]+=)?data:/i;

/** The language that a program of this name runs; undefined for any other program. */
export function languageOf(command: string): Language | undefined {
  const name = basename(command)
    .toLowerCase()
    .replace(/\.exe$/, '')
    .replace(/(?<![-.\d])[-.\d]+$/, '');
  return programs.find(([, names]) => names.test(name))?.[0];
}

/** Whether a program does nothing but start another one. */
export function isStarter(command: string): boolean {
  return starters.test(basename(command));
}

/** The option of a command line after which comes code, such as `-c`; undefined where there is none. */
export function findCodeOption(args: readonly string[], languages: readonly Language[]): string | undefined {
  return args.find(
    (arg) =>
      codeWithin.test(arg) || /^data:/i.test(arg) || languages.some((language) => codeOptions[language]?.test(arg)),
  );
}
