export * from './harvest.js';
export * from './labels.js';
export * from './trees.js';
