// Gives the help pages the colours that were chosen in the console. Without this script they have the system's.
import { startTheme } from "../shell/theme.js";

startTheme();
