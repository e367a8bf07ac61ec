import { render } from 'preact';
import { App } from './frame/app.tsx';
import './tokens.css';
import './base.css';

render(<App />, document.getElementById('app') as HTMLElement);
