//! Text of settings.

use jit_engine::api::config::{ConfigReply, SettingValue, SettingView, Settings};

use crate::render::{clean_line, table};

/// Text of a reply about settings.
pub fn text(reply: &ConfigReply) -> String {
    match reply {
        ConfigReply::Settings(Settings { settings }) => settings_text(settings, false),
        ConfigReply::Setting(setting) => match &setting.value {
            SettingValue::Text(word) => format!("{word}\n"),
            value => format!("{}\n", serde_json::json!(value)),
        },
        ConfigReply::Changed(setting) => format!(
            "{} = {} in {}\n",
            setting.key,
            clean_line(&setting.value.to_string()),
            clean_line(&setting.file)
        ),
    }
}

/// Text of all settings, with their origins if wanted.
pub fn settings_text(settings: &[SettingView], origins: bool) -> String {
    let rows: Vec<Vec<String>> = settings
        .iter()
        .map(|setting| {
            let mut row = vec![format!(
                "{} = {}",
                setting.key,
                clean_line(&setting.value.to_string())
            )];
            if origins {
                row.push(format!("# {}", clean_line(&setting.origin)));
            }
            row
        })
        .collect();
    table(&rows)
}
