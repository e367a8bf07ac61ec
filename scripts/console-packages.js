/** The packages whose code Vite puts into dist/console. The build fails if it would put in others. */
export const consolePackages = ['@preact/signals', '@preact/signals-core', 'preact', 'uplot'];
