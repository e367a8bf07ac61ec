import { describeFolders } from './folder-suite.ts';

describeFolders('worktree');
